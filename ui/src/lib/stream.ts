/** The stream of what happens: batches in order, each once; after a loss it goes on where it was, or says that it cannot. */
import { hello, streamUrl, ApiError, type Batch } from './api'

export interface Listener {
  batch(batch: Batch): void
  /** The past is gone: take a snapshot. */
  reset(): void
  /** "live", "behind" (trying again) or "locked" (the inspector no longer knows this page). */
  link(state: LinkState): void
}
export type LinkState = 'starting' | 'live' | 'behind' | 'locked'

const RETRY_MS = 1_000

export function followStream(after: number, listener: Listener): () => void {
  let source: EventSource | null = null
  let waiting: Batch[] = []
  let frame = 0
  let timer: ReturnType<typeof setTimeout> | undefined
  let to = after
  let closed = false
  let resting = false

  const apply = () => {
    cancelAnimationFrame(frame)
    frame = 0
    const batches = waiting
    waiting = []
    for (const batch of batches) listener.batch(batch)
  }
  const arrived = (batch: Batch) => {
    to = batch.to
    waiting.push(batch)
    // A page that nobody sees gets no animation frames.
    if (document.hidden) apply()
    else if (!frame) frame = requestAnimationFrame(apply)
  }
  const open = () => {
    if (closed) return
    source = new EventSource(streamUrl(to))
    source.onopen = () => listener.link('live')
    source.addEventListener('batch', (event) => arrived(JSON.parse((event as MessageEvent<string>).data) as Batch))
    source.addEventListener('reset', () => {
      close()
      listener.reset()
    })
    // A browser has few connections for all its tabs. Who does not look waits until somebody does.
    source.addEventListener('rest', () => {
      source?.close()
      resting = document.hidden
      if (!resting) timer = setTimeout(look, RETRY_MS)
    })
    source.onerror = () => {
      source?.close()
      listener.link('behind')
      timer = setTimeout(look, RETRY_MS)
    }
  }
  // An EventSource does not tell why it failed; a plain request does.
  const look = async () => {
    try {
      await hello()
      open()
    } catch (error) {
      if (closed) return
      if (error instanceof ApiError && error.status === 401) listener.link('locked')
      else timer = setTimeout(look, RETRY_MS)
    }
  }
  const seen = () => {
    apply()
    if (!resting || document.hidden) return
    resting = false
    void look()
  }
  const close = () => {
    closed = true
    clearTimeout(timer)
    cancelAnimationFrame(frame)
    document.removeEventListener('visibilitychange', seen)
    source?.close()
    waiting = []
  }
  document.addEventListener('visibilitychange', seen)
  open()
  return close
}
