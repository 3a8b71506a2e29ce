/**
 * Keys, in one place, so that the help sheet is true.
 *
 * A screen adds its own while it is shown: `$effect(() => keys({ '/': { words: 'Filter', run: () => input.focus() } }))`.
 * Plain letters are not taken from somebody who types in a field; those with Ctrl or Cmd (written `mod+k`) are.
 */
export interface Key { words: string; run: (event: KeyboardEvent) => void; /** not in the sheet */ quiet?: boolean }
export type Keys = Record<string, Key>

const layers: Keys[] = []

export function bindKeys(layer: Keys): () => void {
  layers.push(layer)
  return () => {
    const index = layers.indexOf(layer)
    if (index >= 0) layers.splice(index, 1)
  }
}

/** What can be pressed now, newest layer first: for the sheet. */
export function boundKeys(): { key: string; words: string }[] {
  const seen = new Map<string, string>()
  for (const layer of layers.toReversed())
    for (const [key, { words, quiet }] of Object.entries(layer)) if (!quiet && !seen.has(key)) seen.set(key, words)
  return [...seen].map(([key, words]) => ({ key, words }))
}

const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent)
/** A key as people read it: `mod+k` is ⌘K or Ctrl K. */
export const keyLabel = (key: string) =>
  key.replace('mod+', isMac ? '⌘' : 'Ctrl ').replace(/(^|[⌘ ])([a-z])$/, (_, before: string, letter: string) => before + (before ? letter.toUpperCase() : letter))

const typing = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))

/** Two keys in a row, as in `g t`. */
let first = ''
let forget: ReturnType<typeof setTimeout> | undefined

export function onkeydown(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing || event.altKey) return
  // A dialog has the keys to itself, Escape above all.
  if (event.target instanceof Element && event.target.closest('dialog')) return
  const mod = event.metaKey || event.ctrlKey
  const name = mod ? `mod+${event.key.toLowerCase()}` : event.key
  if (!mod && typing(event.target) && name !== 'Escape') return
  const pair = first && !mod ? `${first} ${name}` : ''
  first = ''
  for (const layer of layers.toReversed()) {
    const found = (pair && layer[pair]) || layer[name]
    if (found) {
      event.preventDefault()
      found.run(event)
      return
    }
  }
  if (layers.some((layer) => Object.keys(layer).some((key) => key.startsWith(`${name} `)))) {
    first = name
    clearTimeout(forget)
    forget = setTimeout(() => (first = ''), 1000)
  }
}
