/** Rows of messages: their place in columns, and what is known of many of them together. */
import type { MessageRow } from './api'
import type { RowSource } from './row-log.svelte'

export type Group = 'all' | 'requests' | 'notifications' | 'server' | 'errors'
export type SortKey = 'method' | 'subject' | 'status' | 'time' | 'size' | 'when'
export interface Sort { by: SortKey; up: boolean }

export const isNotification = (row: MessageRow) => row.id === undefined
export const isError = (row: MessageRow) => row.outcome !== undefined && row.outcome !== 'ok' && row.outcome !== 'cancelled'
export const isProgress = (row: MessageRow) => row.method === 'notifications/progress'
export const methodOf = (row: MessageRow) => (row.method === undefined ? 'response' : row.method.replace(/^notifications\//, ''))
export const bytesOf = (row: MessageRow) => row.size + (row.answer_size ?? 0)
/** "pending" is a request that was not answered while its connection lived. */
export const statusOf = (row: MessageRow, lostAt: number) =>
  row.outcome ?? (isNotification(row) ? '–' : row.method === undefined ? 'no request' : row.at < lostAt ? 'lost' : row.method === 'subscriptions/listen' ? 'open' : 'pending')
export const inGroup = (row: MessageRow, group: Group) =>
  group === 'all' || (group === 'requests' ? !isNotification(row) && !row.incoming : group === 'notifications' ? isNotification(row) : group === 'server' ? !isNotification(row) && !!row.incoming && row.method !== undefined : isError(row))

export interface Bar { count: number; errors: number }
export interface Survey { counts: Record<Group, number>; pings: number; bars: Bar[]; from: number; to: number; most: number }
const BARS = 120

/** Counts the rows of each group, and how many began in each part of the time. */
export function survey(log: RowSource<MessageRow>): Survey {
  const counts: Record<Group, number> = { all: 0, requests: 0, notifications: 0, server: 0, errors: 0 }
  const bars = Array.from({ length: BARS }, (): Bar => ({ count: 0, errors: 0 }))
  const from = log.at(log.first)?.at ?? 0
  const to = Math.max(from + 1, log.at(log.total - 1)?.at ?? 0)
  let pings = 0
  for (let place = log.first; place < log.total; place++) {
    const row = log.at(place)
    if (!row) continue
    if (row.ping) {
      pings++
      continue
    }
    for (const group of Object.keys(counts) as Group[]) if (inGroup(row, group)) counts[group]++
    const bar = bars[Math.max(0, Math.min(BARS - 1, Math.floor(((row.at - from) / (to - from)) * BARS)))] as Bar
    bar.count++
    if (isError(row)) bar.errors++
  }
  return { counts, pings, bars, from, to, most: Math.max(4, ...bars.map(({ count }) => count)) }
}

export function sorted(rows: MessageRow[], { by, up }: Sort, lostAt: number): MessageRow[] {
  const keys: Record<SortKey, (row: MessageRow) => string | number> = {
    method: methodOf, subject: (row) => row.subject ?? '', status: (row) => statusOf(row, lostAt), time: (row) => row.ms ?? -1, size: bytesOf, when: (row) => row.at,
  }
  const key = keys[by]
  return rows.sort((a, b) => {
    const [x, y] = [key(a), key(b)]
    return (x < y ? -1 : x > y ? 1 : a.seq - b.seq) * (up ? 1 : -1)
  })
}
