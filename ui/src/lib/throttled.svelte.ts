/** A value that is made again when what it was made of changes, but at most a few times a second. */
import { untrack } from 'svelte'

export function throttled<T>(make: () => T, ms = 300): { readonly value: T } {
  let value = $state.raw(untrack(make))
  let timer: ReturnType<typeof setTimeout> | undefined
  let at = 0
  let stale = $state(0)
  // Its dependencies are those of the last time that it was made.
  $effect(() => {
    void stale
    const since = performance.now() - at
    if (since >= ms || !at) {
      at = performance.now()
      const next = make()
      untrack(() => (value = next))
    } else timer ??= setTimeout(() => { timer = undefined; stale++ }, ms - since)
  })
  $effect(() => () => clearTimeout(timer))
  return { get value() { return value } }
}
