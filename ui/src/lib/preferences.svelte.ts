/** What a person chose, remembered by the browser: the scheme, widths of panes, filters. Never contents, never secrets. */
const PREFIX = 'tidings.'

export function preference<T>(name: string, initial: T): { value: T } {
  let start = initial
  try {
    const kept = localStorage.getItem(PREFIX + name)
    if (kept !== null) start = JSON.parse(kept) as T
  } catch { /* nothing kept, or nothing of ours */ }
  let value = $state.raw(start)
  return {
    get value() {
      return value
    },
    set value(next) {
      value = next
      try {
        localStorage.setItem(PREFIX + name, JSON.stringify(next))
      } catch { /* a browser that keeps nothing: it holds until the page is closed */ }
    },
  }
}

export type Theme = 'auto' | 'light' | 'dark'
export const theme = preference<Theme>('theme', 'auto')
