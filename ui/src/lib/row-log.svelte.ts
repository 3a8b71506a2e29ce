/**
 * Lists that grow at their end and are bounded: the oldest entries go, the others keep their place.
 *
 * A place is absolute: the nth entry ever added is at n, also after older ones were dropped. So a view that was paused at
 * place n shows the same entries however many come meanwhile.
 */
export interface RowSource<T> {
  /** the place of the oldest entry that is kept */
  readonly first: number
  /** how many there ever were: one past the place of the newest */
  readonly total: number
  at(place: number): T | undefined
}

/** A plain array as a source. */
export const arraySource = <T>(items: readonly T[]): RowSource<T> => ({ first: 0, total: items.length, at: (place) => items[place] })

/** Rows, each of which begins with its number. The numbers rise. */
export class RowLog<T extends readonly [number, ...unknown[]]> implements RowSource<T> {
  readonly limit: number
  #items: T[] = []
  #gone = 0 // at the head of #items, not yet cut off
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
    return this.#first + this.#items.length - this.#gone
  }
  get length(): number {
    return this.total - this.first
  }
  at(place: number): T | undefined {
    void this.#version
    return place < this.#first ? undefined : this.#items[place - this.#first + this.#gone]
  }
  last(): T | undefined {
    void this.#version
    return this.#items.at(-1)
  }

  append(items: readonly T[]): void {
    if (!items.length) return
    for (const item of items) this.#items.push(item)
    const over = this.#items.length - this.#gone - this.limit
    if (over > 0) {
      this.#gone += over
      this.#first += over
      // Cutting moves every entry: done once in a while.
      if (this.#gone > this.limit / 8) {
        this.#items = this.#items.slice(this.#gone)
        this.#gone = 0
      }
    }
    this.#version++
  }

  /** Put a row in the place of the older state of it, or where its number belongs. What is older than all that is kept goes. */
  amend(item: T): void {
    const index = this.#place(item[0])
    if (this.#items[index]?.[0] === item[0]) this.#items[index] = item
    else if (index > this.#gone || this.#first === 0) this.#items.splice(index, 0, item)
    this.#version++
  }

  /** The row of this number, if it is still kept. */
  find(seq: number): T | undefined {
    void this.#version
    const found = this.#items[this.#place(seq)]
    return found?.[0] === seq ? found : undefined
  }

  /** Where the row of this number is, or would be: rows rise by their numbers. */
  #place(seq: number): number {
    let [low, high] = [this.#gone, this.#items.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#items[middle] as T)[0] < seq) low = middle + 1
      else high = middle
    }
    return low
  }

  clear(): void {
    this.#first = this.#first + this.#items.length - this.#gone
    this.#items = []
    this.#gone = 0
    this.#version++
  }

  *[Symbol.iterator](): Iterator<T> {
    void this.#version
    for (let index = this.#gone; index < this.#items.length; index++) yield this.#items[index] as T
  }
}

/**
 * What of a log passes a test. Only what is new is tested when it is asked again, so that a filter on 100,000 rows costs
 * once. Make a new one when the test changes: `const shown = $derived(filtered(log, row => …))`.
 */
export function filterRows<T>(log: RowSource<T>, test: (item: T) => boolean): RowSource<T> {
  let places: number[] = [] // in the log, where an entry may be replaced by a newer state of itself
  let gone = 0 // cut off from the head of places
  let head = 0 // those that the log has dropped, not yet cut off
  let seen = log.first
  const update = () => {
    const { total, first } = log
    if (first > seen) seen = first
    for (; seen < total; seen++) {
      const item = log.at(seen)
      if (item !== undefined && test(item)) places.push(seen)
    }
    while ((places[head] ?? Infinity) < first) head++
    if (head > 10_000) {
      places = places.slice(head)
      gone += head
      head = 0
    }
  }
  return {
    get first() {
      update()
      return gone + head
    },
    get total() {
      update()
      return gone + places.length
    },
    at(place) {
      update()
      const found = places[place - gone]
      return found === undefined ? undefined : log.at(found)
    },
  }
}
