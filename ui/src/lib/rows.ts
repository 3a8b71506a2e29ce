/** The rows of the stream and of `/api/rows`. Made by scripts/row-types: do not edit. */

/** A change of a resource or a list. Sent again when more is known of it. */
export interface ChangeRow {
  seq: number
  at: number
  server: string
  kind: 'change'
  change: string
  uri?: string
  /** earlier changes that the same read answers */
  merged?: number
  /** from the first known hop to the current content */
  fresh_ms?: number
  /** happened while the server was away */
  away?: boolean
  /** the differences of a list, as text */
  different?: string
}

/** A JSON-RPC message. */
export interface MessageRow {
  seq: number
  at: number
  server: string
  kind: 'message'
  incoming?: boolean
  method?: string
  id?: string | number
  size: number
  ms?: number
  is_error?: boolean
}

/** A notification. */
export interface NotificationRow {
  seq: number
  at: number
  server: string
  kind: 'notification'
  method: string
  summary: string
}

/** A log message. */
export interface LogRow {
  seq: number
  at: number
  server: string
  kind: 'log'
  level: string
  logger?: string
  text: string
}

/** A line of error output, or something that is not a message. */
export interface StderrRow {
  seq: number
  at: number
  server: string
  kind: 'stderr'
  line: string
  garbage?: boolean
}

/** A request. Sent again when its status changes. */
export interface RequestRow {
  seq: number
  at: number
  server: string
  kind: 'request'
  id: string
  method: string
  title: string
  status: string
  ms?: number
  /** the code of its error */
  error?: string
  /** the client sent it by itself */
  aside?: boolean
  /** the id of the task that it became */
  task?: string
  /** working, input_required, or left: the task goes on, and nobody follows it */
  state?: string
  /** the server's words about the status of the task */
  words?: string
  /** the time until which the server keeps the task */
  ends?: number
}

/** An HTTP exchange. Sent again when it is answered and when it ends. */
export interface ExchangeRow {
  seq: number
  at: number
  server: string
  kind: 'exchange'
  id: number
  method: string
  url: string
  status?: number
  ms?: number
  is_stream?: boolean
}

/** A change of the connection's state. */
export interface StateRow {
  seq: number
  at: number
  server: string
  kind: 'state'
  state: string
  words: string
}

/** The type of each kind of row. */
export interface RowsByKind {
  change: ChangeRow
  message: MessageRow
  notification: NotificationRow
  log: LogRow
  stderr: StderrRow
  request: RequestRow
  exchange: ExchangeRow
  state: StateRow
}

export type Row = ChangeRow | MessageRow | NotificationRow | LogRow | StderrRow | RequestRow | ExchangeRow | StateRow
export type RowKind = Row['kind']
