/** Numbers, times, sizes and states as text. */
import type { ServerFacts } from './api'
import type { ServerStore } from './store.svelte'
import { visible } from './text-lines'

const number = new Intl.NumberFormat('en')
export const count = (n: number) => number.format(n)
export const plural = (n: number, one: string, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`
export const time = (at: number) => new Date(at * 1000).toLocaleTimeString('en-GB')
export const timeMs = (at: number) => `${time(at)}.${String(Math.floor((at % 1) * 1000)).padStart(3, '0')}`
export const dateTime = (at: number) => new Date(at * 1000).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short' })

export function duration(ms: number): string {
  if (ms < 1) return '<1 ms'
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`
  if (ms < 120_000) return `${Math.round(ms / 1000)} s`
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`
  return `${Math.round(ms / 3_600_000)} h`
}
export const ago = (at: number, now: number) => (now - at < 1 ? 'now' : `${duration((now - at) * 1000)} ago`)

export function size(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(bytes < 1e4 ? 1 : 0)} KB`
  return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`
}

/** The state of a connection as Python describes it, with a live countdown. */
export function connectionText(facts: ServerFacts, now: number): string {
  if (needsSignIn(facts)) return 'sign in needed'
  if (facts.next_retry !== null && facts.state !== 'connected') {
    const left = Math.max(0, Math.ceil(facts.next_retry - now))
    const problem = facts.was_connected ? 'lost' : exitCode(facts) ? 'failed' : 'not reached'
    return left ? `${problem}; trying again in ${left} s` : `${problem}; trying again`
  }
  if (facts.state === 'connected' && facts.last_answer_ms !== null) {
    const silent = facts.last_answer_at === null ? 0 : now - facts.last_answer_at
    return silent > 5 ? `connected, last answer ${duration(silent * 1000)} ago` : `connected, ${duration(facts.last_answer_ms)}`
  }
  if (facts.state === 'disconnected' && facts.error) return failed(facts)
  return facts.words
}
/** The server refuses to talk without a sign-in. */
export const needsSignIn = (facts: ServerFacts) => facts.state !== 'connected' && facts.error?.code === 'sign-in-needed'
/** "exit code 1", if a command ended by itself. */
export const exitCode = (facts: ServerFacts) => /\b(exit code|signal) \d+/.exec(facts.error?.message ?? '')?.[0] ?? ''
const failed = (facts: ServerFacts) => `failed${exitCode(facts) ? `: ${exitCode(facts)}` : ''}`

/** One line for the list of servers: what is going on there. */
export function briefly(facts: ServerFacts, now: number): string {
  if (facts.state !== 'connected') return facts.next_retry !== null && exitCode(facts) ? failed(facts) : connectionText(facts, now)
  const questions = Object.keys(facts.questions).length
  const busy = [facts.running ? `${count(facts.running)} running` : '', questions ? plural(questions, 'question') : ''].filter(Boolean)
  const watched = Object.keys(facts.subscriptions).length
  return busy.join(', ') || (watched ? `watching ${plural(watched, 'resource')}` : plural(facts.lists.tools.total, 'tool'))
}
/** The class of the dot beside these texts: a square failed, a diamond needs you, a ring tries again. */
export function stateClass(facts: ServerFacts): '' | 'warn' | 'bad' | 'off' | 'ask' {
  if (facts.state === 'connected') return ''
  if (needsSignIn(facts)) return 'ask'
  if (facts.error && !facts.was_connected) return 'bad'
  if (facts.state === 'connecting' || facts.next_retry !== null) return 'warn'
  return facts.state === 'error' || facts.error ? 'bad' : 'off'
}
/** A long address, cut in the middle: its end tells more than its start. */
export const middle = (uri: string, most = 40) => {
  const text = visible(uri)
  if (text.length <= most) return text
  const head = Math.max(4, Math.floor(most * 0.35))
  return `${text.slice(0, head)}…${text.slice(head + 1 - most)}`
}
/** A rough number of tokens: four bytes each. */
export const tokens = (bytes: number) => `≈ ${count(Math.max(1, Math.round(bytes / 4)))} tokens`

const LISTENS = /(?:https?:\/\/(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):|(?:listen|run|serv|start).*?\bport[ :=]+)(\d{2,5})(\/[\w/.-]*)?/i
/** The address at which a command that never answered said that it serves HTTP; "" if it did not. */
export function servedAt({ facts, rows }: ServerStore): string {
  if (typeof facts.entry?.command !== 'string' || facts.was_connected || exitCode(facts)) return ''
  const found = LISTENS.exec([...rows.stderr].slice(-100).map(({ text }) => text).join('\n'))
  return found ? `http://127.0.0.1:${found[1]}${found[2]?.replace(/^\/$/, '') || '/mcp'}` : ''
}
