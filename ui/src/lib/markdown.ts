/**
 * A Markdown parser for the syntax that notes and instructions use: headings, lists, tasks, tables, code, quotes, links and
 * emphasis. A complete library would be a sixth of the page.
 *
 * HTML is treated as text. Time, depth and output are bounded for any input; no regular expression here backtracks over the
 * same whitespace repeatedly.
 */
export type Inline =
  | { kind: 'text'; text: string }
  | { kind: 'code'; text: string }
  | { kind: 'strong' | 'em' | 'del'; inner: Inline[] }
  | { kind: 'link'; inner: Inline[]; href: string }
  | { kind: 'image'; text: string; href: string }
  | { kind: 'break' }
export interface Item { task: boolean | null; blocks: Block[] }
export type Block =
  | { kind: 'heading'; depth: number; inner: Inline[] }
  | { kind: 'paragraph'; inner: Inline[] }
  | { kind: 'code'; text: string }
  | { kind: 'quote'; blocks: Block[] }
  | { kind: 'list'; start: number | null; items: Item[] }
  | { kind: 'table'; head: Inline[][]; rows: Inline[][][] }
  | { kind: 'rule' }

const MAX_DEPTH = 12
/** Longer paragraphs are shown as plain text. */
const MAX_PARAGRAPH = 20_000
const FENCE = /^ {0,3}(`{3,}|~{3,})/
/** The limit of blocks, items, rows and inline parts: a browser takes long to lay out more. */
const MAX_PARTS = 20_000
const HEADING = /^ {0,3}(#{1,6})(?=\s|$)/
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/
const QUOTE = /^ {0,3}> ?/
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/
const TASK = /^\[([ xX])\]\s+/
const CELL = /^:?-+:?$/

/** The number of parts left for the current text. */
let budget = MAX_PARTS

/** Parses a text; `whole` is false if it was too long to parse to the end. */
export function parseMarkdown(text: string): { tree: Block[]; whole: boolean } {
  budget = MAX_PARTS
  const tree = blocks(text)
  return { tree, whole: budget > 0 }
}

function blocks(text: string): Block[] {
  const lines = text.replace(/\r\n?/g, '\n').split('\n')
  if (lines[0] !== '---') return parse(lines, 0)
  const end = lines.indexOf('---', 1)
  // Front matter is shown as plain text.
  return end < 0 ? parse(lines, 0) : [{ kind: 'code', text: lines.slice(1, end).join('\n') }, ...parse(lines.slice(end + 1), 0)]
}

function parse(lines: string[], depth: number): Block[] {
  const found: Block[] = []
  let paragraph: string[] = []
  const endParagraph = () => {
    if (paragraph.length) found.push({ kind: 'paragraph', inner: inline(paragraph.join('\n')) })
    paragraph = []
  }
  for (let at = 0; at < lines.length && budget > 0; ) {
    const line = lines[at] as string
    budget--
    const fence = FENCE.exec(line)
    if (fence) {
      endParagraph()
      const mark = fence[1] as string
      let end = at + 1
      while (end < lines.length && !((lines[end] as string).trim().startsWith(mark) && /^[`~]+$/.test((lines[end] as string).trim()))) end++
      found.push({ kind: 'code', text: lines.slice(at + 1, end).join('\n') })
      at = end + 1
    } else if (!line.trim()) {
      endParagraph()
      at++
    } else if (HEADING.test(line)) {
      endParagraph()
      const [whole = '', marks = ''] = HEADING.exec(line) ?? []
      found.push({ kind: 'heading', depth: marks.length, inner: inline(headingText(line.slice(whole.length).trim())) })
      at++
    } else if (RULE.test(line)) {
      endParagraph()
      found.push({ kind: 'rule' })
      at++
    } else if (QUOTE.test(line) && depth < MAX_DEPTH) {
      endParagraph()
      const inner: string[] = []
      while (at < lines.length && QUOTE.test(lines[at] as string)) inner.push((lines[at++] as string).replace(QUOTE, ''))
      found.push({ kind: 'quote', blocks: parse(inner, depth + 1) })
    } else if (ITEM.test(line) && depth < MAX_DEPTH && !(paragraph.length && /^\s*\d/.test(line))) {
      endParagraph()
      at = list(lines, at, depth, found)
    } else if (line.includes('|') && !paragraph.length && isTableDivider(lines[at + 1] ?? '')) {
      const head = cells(line)
      const rows: Inline[][][] = []
      for (at += 2; at < lines.length && budget > 0 && (lines[at] as string).includes('|'); at++) rows.push(cells(lines[at] as string))
      found.push({ kind: 'table', head, rows })
    } else {
      paragraph.push(line.trimStart())
      at++
    }
  }
  endParagraph()
  return found
}

function list(lines: string[], from: number, depth: number, found: Block[]): number {
  const first = (ITEM.exec(lines[from] as string) as RegExpExecArray)[2] as string
  const ordered = /\d/.test(first)
  const items: Item[] = []
  let at = from
  while (at < lines.length && budget > 0) {
    budget--
    const begin = ITEM.exec(lines[at] as string)
    if (!begin || /\d/.test(begin[2] as string) !== ordered || RULE.test(lines[at] as string)) break
    const width = begin[0].length + (begin[3] ? 0 : 1)
    const inner = [(lines[at] as string).slice(begin[0].length)]
    for (at++; at < lines.length; at++) {
      const line = lines[at] as string
      const indent = line.length - line.trimStart().length
      if (!line.trim()) {
        const next = lines[at + 1] ?? ''
        if (!next.trim() || next.length - next.trimStart().length < width) break
        inner.push('')
      } else if (indent >= Math.min(width, 2)) inner.push(line.slice(Math.min(indent, width)))
      else break
    }
    const task = TASK.exec(inner[0] as string)
    if (task) inner[0] = (inner[0] as string).slice(task[0].length)
    items.push({ task: task ? task[1] !== ' ' : null, blocks: parse(inner, depth + 1) })
    let next = at
    while (next < lines.length && !(lines[next] as string).trim()) next++
    if (next > at && ITEM.test(lines[next] ?? '')) at = next
  }
  found.push({ kind: 'list', start: ordered ? parseInt(first, 10) : null, items })
  return at
}

const splitCells = (line: string) => line.trim().replace(/^\||(?<!\\)\|$/g, '').split(/(?<!\\)\|/)
/** Returns whether a line separates the head of a table from its rows. */
const isTableDivider = (line: string) => line.includes('-') && splitCells(line).every((cell) => CELL.test(cell.trim()))

function cells(line: string): Inline[][] {
  const some = splitCells(line).slice(0, budget)
  budget -= some.length
  return some.map((cell) => inline(cell.trim().replaceAll('\\|', '|')))
}

/** The text of a heading without closing `#` marks. */
function headingText(line: string): string {
  let end = line.length
  while (line[end - 1] === '#') end--
  return end === 0 || /\s/.test(line[end - 1] as string) ? line.slice(0, end).trimEnd() : line
}

// Marks within code are not those of emphasis. In this order: an escape, code, an image or link, a bare URL, emphasis, a line break.
const PARTS = /\\([!-/:-@[-`{-~])|(?<!`)(`+)(?!`)([^`]|[^`][\s\S]{0,2000}?[^`])\2(?!`)|(!?)\[((?:[^[\]\\]|\\.|\[[^[\]]{0,200}\]){0,1000})\]\(\s{0,20}<?([^\s<>()]{0,2000}(?:\([^\s()]{0,200}\)[^\s<>()]{0,200})?)>?(?:\s{1,20}["'(][^"')]{0,500}["')])?\s{0,20}\)|<?(https?:\/\/[^\s<>"')\]]{1,2000}[^\s<>"')\].,;:!?])>?|(\*\*\*|\*\*|\*|~~|(?<![\w])__|(?<![\w])_)(?=\S)((?:`[^`\n]{1,200}`|[^`]){0,400}?(?:`[^`\n]{1,200}`|[^\s\\`]))\8(?![\w]*\8)|((?<! ) {2,}|\\)\n/g

export function inline(text: string, depth = 0): Inline[] {
  const found: Inline[] = []
  let last = 0
  const plain = (to: number) => {
    if (to > last) found.push({ kind: 'text', text: text.slice(last, to) })
  }
  if (depth > MAX_DEPTH || text.length > MAX_PARAGRAPH) return [{ kind: 'text', text }]
  for (const match of text.matchAll(PARTS)) {
    if (--budget < 0) break
    const [whole, escaped, , code, bang, label, href, address, mark, inner, end] = match
    plain(match.index)
    last = match.index + whole.length
    if (escaped !== undefined) found.push({ kind: 'text', text: escaped })
    else if (code !== undefined) found.push({ kind: 'code', text: code.trim() || code })
    else if (label !== undefined) found.push(bang ? { kind: 'image', text: label, href: href ?? '' } : { kind: 'link', inner: inline(label, depth + 1), href: href ?? '' })
    else if (address !== undefined) found.push({ kind: 'link', inner: [{ kind: 'text', text: address }], href: address })
    else if (mark !== undefined) {
      const below = inline(inner ?? '', depth + 1)
      if (mark === '***') found.push({ kind: 'strong', inner: [{ kind: 'em', inner: below }] })
      else found.push({ kind: mark === '~~' ? 'del' : mark.length === 2 ? 'strong' : 'em', inner: below })
    } else if (end !== undefined) found.push({ kind: 'break' })
  }
  plain(text.length)
  return found
}
