/**
 * Keyboard shortcuts, in one place, so that the list of shortcuts is always complete.
 *
 * A screen adds its own while it is shown: `$effect(() => bindKeys({ '/': { label: 'Filter', run: () => input.focus() } }))`.
 * Plain keys are ignored while a field has the focus; keys with Ctrl or Cmd (written `mod+k`) are not.
 */
export interface Key { label: string; run: (event: KeyboardEvent) => void; /** left out of the list of shortcuts */ unlisted?: boolean }
export type Keys = Record<string, Key>

const layers: Keys[] = []
let changed: () => void = () => undefined
/** Calls this whenever the shortcuts change. */
export const onKeysChanged = (listener: () => void) => (changed = listener)
/** The shortcuts of the shown screen, without those of the frame. */
export const screenKeys = () => layers.slice(1).toReversed().flatMap((layer) => Object.entries(layer).filter(([, { unlisted }]) => !unlisted).map(([key, { label }]) => ({ key, label })))

export function bindKeys(layer: Keys): () => void {
  layers.push(layer)
  changed()
  return () => {
    const index = layers.indexOf(layer)
    if (index >= 0) layers.splice(index, 1)
    changed()
  }
}

/** The current shortcuts, newest layer first. */
export function boundKeys(): ({ key: string } & Key)[] {
  const seen = new Map<string, Key>()
  for (const layer of layers.toReversed())
    for (const [key, bound] of Object.entries(layer)) if (!bound.unlisted && !seen.has(key)) seen.set(key, bound)
  return [...seen].map(([key, bound]) => ({ key, ...bound }))
}

const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent)
const NAMES: Record<string, string> = { ArrowLeft: '←', ArrowRight: '→', Enter: '↵', Escape: 'Esc' }
/** A key as shown to the user: `mod+k` is ⌘K or Ctrl K. */
export const keyLabel = (key: string) =>
  key.replace('mod+', isMac ? '⌘' : 'Ctrl ').replace(/Arrow(Left|Right)|Enter|Escape/, (name) => NAMES[name] ?? name).replace(/(^|[⌘ ])([a-z])$/, (_, before: string, letter: string) => before + (before ? letter.toUpperCase() : letter))

/** Moves in the list of the screen, wherever the focus is. Where the rows are links or buttons, the next one gets the focus. */
export function moveInList(key: 'j' | 'k'): void {
  const list = document.querySelector<HTMLElement>('main [role=listbox]')
  if (list) {
    list.focus()
    list.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }))
    return
  }
  const rows = [...document.querySelectorAll<HTMLElement>('main [data-row]')]
  const now = rows.findIndex((row) => row.contains(document.activeElement))
  const next = rows[Math.max(0, now + (key === 'j' ? 1 : -1))]
  const target = next?.matches('a, button') ? next : next?.querySelector<HTMLElement>('a, button')
  target?.focus()
}

const isField = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))

/** The first key of a sequence such as `g t`. */
let first = ''
let forgetTimer: ReturnType<typeof setTimeout> | undefined

export function onkeydown(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing || event.altKey) return
  // A dialog handles its own keys, above all Escape.
  if (event.target instanceof Element && event.target.closest('dialog')) return
  const mod = event.metaKey || event.ctrlKey
  // In what scrolls, or slides, the arrows are its own.
  if (/^Arrow(Up|Down)$/.test(event.key) && event.target instanceof Element && event.target.closest('[tabindex="0"]')) return
  const name = mod ? `mod+${event.key.toLowerCase()}` : event.key
  if (!mod && isField(event.target) && name !== 'Escape') return
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
    clearTimeout(forgetTimer)
    forgetTimer = setTimeout(() => (first = ''), 1000)
  }
}
