/**
 * Bounded lists that grow at their end. The oldest entries are dropped; the others keep their place.
 *
 * A place is absolute: the nth entry ever added is at n, even after older ones were dropped. A view that is paused at place
 * n therefore shows the same entries however many arrive.
 */
export interface RowSource<T> {
  /** the place of the oldest kept entry */
  readonly first: number
  /** the number of entries ever added: one past the place of the newest */
  readonly total: number
  at(place: number): T | undefined
}

/** A plain array as a source. */
export const arraySource = <T>(items: readonly T[]): RowSource<T> => ({ first: 0, total: items.length, at: (place) => items[place] })

/** Rows in the order of their sequence numbers. */
export class RowLog<T extends { readonly seq: number }> implements RowSource<T> {
  readonly limit: number
  #items: T[] = []
  #dropped = 0 // at the head of #items, not yet cut off
  #first = 0
  #version = $state(0)

  constructor(limit = 100_000) {
    this.limit = limit
  }

  get first(): number {
    void this.#version
    return this.#first
  }
  get total(): number {
    void this.#version
    return this.#first + this.#items.length - this.#dropped
  }
  at(place: number): T | undefined {
    void this.#version
    return place < this.#first ? undefined : this.#items[place - this.#first + this.#dropped]
  }
  last(): T | undefined {
    void this.#version
    return this.#items.at(-1)
  }

  append(items: readonly T[]): void {
    if (!items.length) return
    for (const item of items) this.#items.push(item)
    const over = this.#items.length - this.#dropped - this.limit
    if (over > 0) {
      this.#dropped += over
      this.#first += over
      // Cutting moves every entry, so it is done rarely.
      if (this.#dropped > this.limit / 8) {
        this.#items = this.#items.slice(this.#dropped)
        this.#dropped = 0
      }
    }
    this.#version++
  }

  /** Replaces the older state of a row, or inserts the row in order. A row older than all kept ones is ignored. */
  update(item: T): void {
    const index = this.#indexOf(item.seq)
    if (this.#items[index]?.seq === item.seq) this.#items[index] = item
    else if (index > this.#dropped || this.#first === 0) this.#items.splice(index, 0, item)
    this.#version++
  }

  /** The row with this sequence number, if it is still kept. */
  find(seq: number): T | undefined {
    void this.#version
    const found = this.#items[this.#indexOf(seq)]
    return found?.seq === seq ? found : undefined
  }

  /** The index of the row with this sequence number, or where it would be inserted. */
  #indexOf(seq: number): number {
    let [low, high] = [this.#dropped, this.#items.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#items[middle] as T).seq < seq) low = middle + 1
      else high = middle
    }
    return low
  }

  *[Symbol.iterator](): Iterator<T> {
    void this.#version
    for (let index = this.#dropped; index < this.#items.length; index++) yield this.#items[index] as T
  }
}

/**
 * Returns the rows that pass a test. Each row is tested once, so filtering 100,000 rows is paid for only once.
 * Make a new filter when the test changes: `const shown = $derived(filterRows(log, row => …))`.
 */
export function filterRows<T>(log: RowSource<T>, test: (item: T) => boolean): RowSource<T> {
  let places: number[] = [] // in the log, where a row may be replaced by its newer state
  let cut = 0 // entries removed from the head of places
  let head = 0 // entries that the log has dropped, not yet removed
  let tested = log.first
  const update = () => {
    const { total, first } = log
    if (first > tested) tested = first
    for (; tested < total; tested++) {
      const item = log.at(tested)
      if (item !== undefined && test(item)) places.push(tested)
    }
    while ((places[head] ?? Infinity) < first) head++
    if (head > 10_000) {
      places = places.slice(head)
      cut += head
      head = 0
    }
  }
  return {
    get first() {
      update()
      return cut + head
    },
    get total() {
      update()
      return cut + places.length
    },
    at(place) {
      update()
      const found = places[place - cut]
      return found === undefined ? undefined : log.at(found)
    },
  }
}

/** The rows that one list of several logs shows. */
const MOST_TOGETHER = 2_000

/**
 * Returns the newest rows of several sources up to a moment, in the order of their sequence numbers. Their places are absolute,
 * as those of a log, while the moment is after all of them.
 */
export function newest<T extends { readonly seq: number; readonly at: number }>(sources: readonly RowSource<T>[], upTo: number): RowSource<T> {
  const ends = sources.map(({ total }) => total)
  const items: T[] = []
  while (items.length < MOST_TOGETHER) {
    let from = -1
    let best: T | undefined
    sources.forEach((source, index) => {
      const item = source.at((ends[index] ?? 0) - 1)
      if (item !== undefined && (best === undefined || item.seq > best.seq)) [best, from] = [item, index]
    })
    if (best === undefined) break
    ends[from] = (ends[from] ?? 0) - 1
    if (best.at <= upTo) items.push(best)
  }
  items.reverse()
  const first = ends.reduce((sum, end) => sum + end, 0)
  return { first, total: first + items.length, at: (place) => items[place - first] }
}
