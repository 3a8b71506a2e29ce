/** Choices that the browser remembers: the theme, pane widths, filters. Never contents or secrets. */
const PREFIX = 'tidings.'

export function preference<T>(name: string, initial: T): { value: T } {
  let start = initial
  try {
    const stored = localStorage.getItem(PREFIX + name)
    if (stored !== null) start = JSON.parse(stored) as T
  } catch { /* no storage, or not JSON: use the initial value */ }
  let value = $state.raw(start)
  return {
    get value() {
      return value
    },
    set value(next) {
      value = next
      try {
        localStorage.setItem(PREFIX + name, JSON.stringify(next))
      } catch { /* no storage: the choice lasts until the page is closed */ }
    },
  }
}

export type Theme = 'auto' | 'light' | 'dark'
export const theme = preference<Theme>('theme', 'auto')
/** Long lines of texts and JSON are wrapped. */
export const wrap = preference('wrap', true)
