/** Texts as lines that a page can show, however long they are. */

/** One line of a text that is longer than this goes on in the next: nobody reads it, and a browser chokes on it. */
export const LONGEST = 2_000

export interface TextLine { number: number; text: string; goesOn: boolean }

export function linesOf(text: string): TextLine[] {
  const lines: TextLine[] = []
  let number = 0
  for (const whole of text.split('\n')) {
    number++
    if (whole.length <= LONGEST) {
      lines.push({ number, text: whole, goesOn: false })
      continue
    }
    for (let start = 0; start < whole.length; start += LONGEST)
      lines.push({ number, text: whole.slice(start, start + LONGEST), goesOn: start > 0 })
  }
  return lines
}

export interface JsonLine { text: string; depth: number; /** the line where what begins here ends */ end: number | null }

/** The value with a line for each part; one that is nested deeper than a browser can write it is named. */
function written(value: unknown): string {
  try {
    return JSON.stringify(value, null, 2) ?? 'null'
  } catch {
    return '… nested too deeply to be laid out'
  }
}

/** A JSON value line by line, and where each object and array that begins in a line ends. */
export function jsonLines(value: unknown): JsonLine[] {
  const open: number[] = []
  const lines: JsonLine[] = []
  for (const whole of written(value).split('\n')) {
    const depth = (whole.length - whole.trimStart().length) / 2
    const text = whole.trimStart()
    const closes = text.startsWith('}') || text.startsWith(']')
    if (closes) {
      const begin = lines[open.pop() ?? -1]
      if (begin) begin.end = lines.length
    }
    if (text.endsWith('{') || text.endsWith('[')) open.push(lines.length)
    if (text.length <= LONGEST) {
      lines.push({ text, depth, end: null })
      continue
    }
    for (let start = 0; start < text.length; start += LONGEST)
      lines.push({ text: text.slice(start, start + LONGEST), depth: start ? depth + 1 : depth, end: null })
  }
  return lines
}

export type Ink = 'key' | 'text' | 'number' | 'word' | ''
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)/g

/** The parts of one line of JSON, each with what it is. */
export function inks(line: string): { text: string; ink: Ink }[] {
  const parts: { text: string; ink: Ink }[] = []
  let last = 0
  for (const found of line.matchAll(TOKEN)) {
    if (found.index > last) parts.push({ text: line.slice(last, found.index), ink: '' })
    const [whole, text, colon, number] = found
    parts.push({ text: whole, ink: text ? (colon ? 'key' : 'text') : number ? 'number' : 'word' })
    last = found.index + whole.length
  }
  if (last < line.length) parts.push({ text: line.slice(last), ink: '' })
  return parts
}
