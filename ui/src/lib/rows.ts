/** The rows of the stream and of `/api/rows`. Made by scripts/row-types: do not edit. */

/** A change to a resource or a list, as the server sent it or as it was found later, with its effect. Its row is sent again when more is known about it. */
export interface ChangeRow {
  seq: number
  at: number
  server: string
  kind: 'change'
  /** `resource-updated`, `tools-list-changed`, `resources-list-changed` or `prompts-list-changed`. */
  change: string
  uri?: string
  /** The number of earlier changes to the same that were not read yet: one read covers them all. */
  merged: number
  fresh_ms?: number
  /** True if it happened while the server was away, and was found later. */
  away?: boolean
  /** The differences of a list, as text. */
  different?: string
}

/** A JSON-RPC message. */
export interface MessageRow {
  seq: number
  at: number
  server: string
  kind: 'message'
  incoming?: boolean
  /** For a response: the method of the request that it answers, if known. */
  method?: string
  id?: string | number
  size: number
  /** The time that it took, if known. */
  ms?: number
  /** The tool, resource or prompt that the message is about, or the beginning of its text. */
  subject?: string
  outcome?: string
  answer_size?: number
  /** True for a liveness check, which the client sent automatically. */
  ping?: boolean
}

/** A notification from the server that is not a log message. */
export interface NotificationRow {
  seq: number
  at: number
  server: string
  kind: 'notification'
  method: string
  summary: string
}

/** A log message from the server. */
export interface LogRow {
  seq: number
  at: number
  server: string
  kind: 'log'
  level: string
  logger?: string
  /** The beginning of its message. */
  text: string
}

/** A line of error output or, with `garbage`, something from the server that is not a message. */
export interface LineRow {
  seq: number
  at: number
  server: string
  kind: 'stderr'
  text: string
  garbage?: boolean
}

/** A request and its result. Its row is sent again when its status changes. */
export interface RequestRow {
  seq: number
  at: number
  server: string
  kind: 'request'
  id: string
  method: string
  /** The subject: its tool, resource or prompt. */
  title: string
  /** `pending`, `in_progress`, `completed`, `cancelled` or `error`. */
  status: string
  /** The status. While its task runs, the status of the task; `left` if nobody follows the task any more. */
  state: string
  ms?: number
  error_code?: string
  /** True if the client sent it automatically, to load a list or to read a subscribed resource. */
  aside?: boolean
  task_id?: string
  /** The server's message about the status of the task. */
  task_message?: string
  /** The beginning of its arguments. */
  given: string
  result_size: number
  /** True if the tool reports that it failed. */
  is_error?: boolean
}

/** An HTTP exchange. Its row is sent again when it is answered and when it ends. */
export interface ExchangeRow {
  seq: number
  at: number
  server: string
  kind: 'exchange'
  id: number
  method: string
  url: string
  status?: number
  /** The time that it took, if known. */
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
  stderr: LineRow
  request: RequestRow
  exchange: ExchangeRow
  state: StateRow
}

export type Row = ChangeRow | MessageRow | NotificationRow | LogRow | LineRow | RequestRow | ExchangeRow | StateRow
export type RowKind = Row['kind']
