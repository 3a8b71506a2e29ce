import { onDestroy } from 'svelte'

/**
 * A question that a component asks again whenever something is different, one at a time: what is wanted while an answer
 * is awaited is asked for once it is there. So what changes faster than it can be asked for is shown all the same.
 *
 * `ask` looks up for itself what is wanted now, never fails, and gives what to do with the answer, which is done only if
 * the component is still there.
 */
export function refetcher(ask: () => Promise<() => void>): () => void {
  let waiting = false
  let again = false
  let over = false
  onDestroy(() => (over = true))
  return function want() {
    again = waiting
    if (waiting) return
    waiting = true
    void ask().then((show) => {
      waiting = false
      if (over) return
      show()
      if (again) want()
    })
  }
}
