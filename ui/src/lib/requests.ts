/** Request rows: their status, and how to find them. */
import type { RequestRow } from './api'
import type { RowSource } from './row-log.svelte'

export const STATUS_LABELS: Record<string, string> = { pending: 'queued', in_progress: 'running', completed: 'done', cancelled: 'cancelled', error: 'failed', working: 'working', input_required: 'input required', left: 'not followed' }

/** Returns whether a request of this status has no result yet. */
export const isUnfinished = (status: string) => status === 'pending' || status === 'in_progress'

/** The status of a row; that of its task while it runs. */
export const stateOf = (row: { status: string; state?: string }) => row.state ?? row.status
/** The CSS class for a status. */
export const stateStyle = (state: string) =>
  ({ error: 'bad', completed: 'ok', cancelled: 'faint', left: 'warn', working: 'accent' })[state] ?? 'warn'

/** The newest rows, newest first. Bounded, because callers walk through them whenever a request changes. */
export function* newestRequests(log: RowSource<RequestRow>, limit: number): Generator<RequestRow> {
  for (let place = log.total - 1; place >= Math.max(log.first, log.total - limit); place--) {
    const row = log.at(place)
    if (row) yield row
  }
}

export function findRequest(log: RowSource<RequestRow>, id: string | null): RequestRow | undefined {
  for (const row of newestRequests(log, 2_000)) if (row.id === id) return row
  return undefined
}
