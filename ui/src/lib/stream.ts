/** The event stream: batches in order, each once. After a lost connection it resumes, or asks for a reset. */
import { hello, streamUrl, ApiError, type Batch } from './api'

export interface Listener {
  batch(batch: Batch): void
  /** Resuming is impossible: load a snapshot. */
  reset(): void
  connection(state: ConnectionState): void
}
/** `locked`: the inspector does not accept the key of this page. */
export type ConnectionState = 'starting' | 'live' | 'reconnecting' | 'locked'

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
  const receive = (batch: Batch) => {
    to = batch.to
    waiting.push(batch)
    // A hidden page gets no animation frames.
    if (document.hidden) apply()
    else if (!frame) frame = requestAnimationFrame(apply)
  }
  const open = () => {
    if (closed) return
    source = new EventSource(streamUrl(to))
    source.onopen = () => listener.connection('live')
    source.addEventListener('batch', (event) => receive(JSON.parse((event as MessageEvent<string>).data) as Batch))
    source.addEventListener('reset', () => {
      close()
      listener.reset()
    })
    // A browser has few connections for all its tabs, so hidden pages wait until they are visible.
    source.addEventListener('rest', () => {
      source?.close()
      resting = document.hidden
      if (!resting) timer = setTimeout(reopen, RETRY_MS)
    })
    source.onerror = () => {
      source?.close()
      listener.connection('reconnecting')
      timer = setTimeout(reopen, RETRY_MS)
    }
  }
  // An EventSource does not report why it failed; a plain request does.
  const reopen = async () => {
    try {
      await hello()
      open()
    } catch (error) {
      if (closed) return
      if (error instanceof ApiError && error.status === 401) listener.connection('locked')
      else timer = setTimeout(reopen, RETRY_MS)
    }
  }
  const visibilityChanged = () => {
    apply()
    if (!resting || document.hidden) return
    resting = false
    void reopen()
  }
  const close = () => {
    closed = true
    clearTimeout(timer)
    cancelAnimationFrame(frame)
    document.removeEventListener('visibilitychange', visibilityChanged)
    source?.close()
    waiting = []
  }
  document.addEventListener('visibilitychange', visibilityChanged)
  open()
  return close
}
