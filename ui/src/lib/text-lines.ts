/** Texts and JSON values of any size, split into lines that a page can show. */
import { isExactNumber } from './exact-json'

/** Longer lines are broken: browsers are slow with very long lines. */
export const MAX_LINE = 2_000

export interface TextLine { number: number; text: string; continued: boolean; /** in a fenced diff: an added or removed line */ mark: '' | 'add' | 'del' }

export function splitLines(text: string): TextLine[] {
  const lines: TextLine[] = []
  let number = 0
  let isDiff = false
  for (const whole of text.split('\n')) {
    number++
    if (whole.startsWith('```')) isDiff = whole.startsWith('```diff')
    const mark = !isDiff ? '' : whole.startsWith('+') ? 'add' : whole.startsWith('-') ? 'del' : ''
    if (whole.length <= MAX_LINE) {
      lines.push({ number, text: whole, continued: false, mark })
      continue
    }
    for (let start = 0; start < whole.length; start += MAX_LINE)
      lines.push({ number, text: whole.slice(start, start + MAX_LINE), continued: start > 0, mark })
  }
  return lines
}

export interface JsonLine { text: string; depth: number; /** the last line of the object or array that begins here; null if none does, or if unknown yet */ end: number | null }

type Container = readonly unknown[] | Record<string, unknown>
interface Open { of: Container; keys: string[] | null; next: number; size: number; line: number }
/** A line that is not a whole value: a closing bracket, or a part of a long string. */
class Fragment {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}
const isContainer = (value: unknown): value is Container => value !== null && typeof value === 'object' && !(value instanceof Fragment) && !isExactNumber(value)

/**
 * A JSON value line by line, with the end of each object and array.
 *
 * Values of megabytes have hundreds of thousands of lines, and building them at once would block the page. `go` builds
 * lines for some milliseconds; call it until `done`. The text of a line is built when it is read.
 */
export class JsonLines {
  done = false
  #values: unknown[] = []
  #keys: (string | null)[] = []
  #depths: number[] = []
  #ends: number[] = []
  #commas: boolean[] = []
  #open: Open[] = []

  constructor(value: unknown, ms = 12) {
    this.#add(null, value === undefined ? null : value, false)
    this.go(ms)
  }

  get length(): number {
    return this.#values.length
  }

  go(ms: number): void {
    const until = performance.now() + ms
    for (let steps = 1; this.#open.length; steps++) {
      this.#step(this.#open.at(-1) as Open)
      if (steps % 500 === 0 && performance.now() > until) return
    }
    this.done = true
  }

  at(place: number): JsonLine {
    const value = this.#values[place]
    const key = this.#keys[place]
    const end = this.#ends[place] ?? 0
    const text = value instanceof Fragment ? value.text : end ? (Array.isArray(value) ? '[' : '{') : JSON.stringify(value)
    const before = key === null || key === undefined ? '' : `${JSON.stringify(key)}: `
    return { text: `${before}${text}${this.#commas[place] && !end ? ',' : ''}`, depth: this.#depths[place] ?? 0, end: end > 0 ? end : null }
  }

  #step(open: Open): void {
    if (open.next < open.size) {
      const key = open.keys?.[open.next] ?? null
      const value = key === null ? (open.of as readonly unknown[])[open.next] : (open.of as Record<string, unknown>)[key]
      open.next++
      this.#add(key, value === undefined ? null : value, open.next < open.size)
      return
    }
    this.#open.pop()
    this.#ends[open.line] = this.#values.length
    this.#push(null, new Fragment(open.keys ? '}' : ']'), this.#commas[open.line] ?? false, 0)
  }

  #add(key: string | null, value: unknown, comma: boolean): void {
    if (isContainer(value)) {
      const keys = Array.isArray(value) ? null : Object.keys(value).filter((name) => (value as Record<string, unknown>)[name] !== undefined)
      const size = keys ? keys.length : (value as readonly unknown[]).length
      // -1: its end is not known yet.
      this.#push(key, value, comma, size ? -1 : 0)
      if (size) this.#open.push({ of: value, keys, next: 0, size, line: this.#values.length - 1 })
    } else if (typeof value === 'string' && value.length > MAX_LINE) {
      const whole = JSON.stringify(value)
      for (let start = 0; start < whole.length; start += MAX_LINE)
        this.#push(start ? null : key, new Fragment(whole.slice(start, start + MAX_LINE)), comma && start + MAX_LINE >= whole.length, 0)
    } else this.#push(key, value, comma, 0)
  }

  #push(key: string | null, value: unknown, comma: boolean, end: number): void {
    this.#values.push(value)
    this.#keys.push(key)
    this.#depths.push(this.#open.length)
    this.#ends.push(end)
    this.#commas.push(comma)
  }
}

export type TokenKind = 'key' | 'text' | 'number' | 'word' | ''
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)/g

/** The tokens of one line of JSON, for syntax colours. */
export function highlight(line: string): { text: string; kind: TokenKind }[] {
  const parts: { text: string; kind: TokenKind }[] = []
  let last = 0
  for (const found of line.matchAll(TOKEN)) {
    if (found.index > last) parts.push({ text: line.slice(last, found.index), kind: '' })
    const [whole, text, colon, number] = found
    parts.push({ text: whole, kind: text ? (colon ? 'key' : 'text') : number ? 'number' : 'word' })
    last = found.index + whole.length
  }
  if (last < line.length) parts.push({ text: line.slice(last), kind: '' })
  return parts
}

/** A text cut at the places where a search found something, regardless of case. */
export function hits(text: string, wanted: string): { text: string; hit: boolean }[] {
  if (!wanted) return [{ text, hit: false }]
  const parts: { text: string; hit: boolean }[] = []
  const [low, needle] = [text.toLowerCase(), wanted.toLowerCase()]
  let last = 0
  for (let at = low.indexOf(needle); at >= 0; at = low.indexOf(needle, last)) {
    if (at > last) parts.push({ text: text.slice(last, at), hit: false })
    last = at + needle.length
    parts.push({ text: text.slice(at, last), hit: true })
  }
  if (last < text.length) parts.push({ text: text.slice(last), hit: false })
  return parts
}

/** Characters that turn the direction of a text, or that cannot be seen, as visible names. Joiners stay where emoji and scripts need them. */
export const visible = (text: string) => text.replace(/(?<![\u0600-\u0dff\ufe0f\p{EMod}\p{ExtPict}])[\u200c\u200d]|[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u061c]/gu, (one) => `[U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}]`)
/** A name cut after each of its words, which is where it may break. */
export const parts = (name: string) => name.split(/(?<=[_.:/-])/)
