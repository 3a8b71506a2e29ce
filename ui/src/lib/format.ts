/** Numbers, times, sizes and states as text. */
import type { ServerFacts } from './api'

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
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(bytes < 1e4 ? 1 : 0)} kB`
  return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`
}

/** The state of a connection as Python describes it, with a live countdown. */
export function connectionText(facts: ServerFacts, now: number): string {
  if (facts.next_retry !== null && facts.state !== 'connected') {
    const left = Math.max(0, Math.ceil(facts.next_retry - now))
    const problem = facts.was_connected ? 'lost' : 'not reached'
    return left ? `${problem}; trying again in ${left} s` : `${problem}; trying again`
  }
  if (facts.state === 'connected' && facts.last_answer_ms !== null) {
    const silent = facts.last_answer_at === null ? 0 : now - facts.last_answer_at
    return silent > 5 ? `connected, last answer ${duration(silent * 1000)} ago` : `connected, answered in ${duration(facts.last_answer_ms)}`
  }
  return facts.words
}
/** The CSS class of the dot beside that text. */
export function stateClass(facts: ServerFacts): '' | 'warn' | 'bad' | 'off' {
  if (facts.state === 'connected') return ''
  if (facts.state === 'connecting' || facts.next_retry !== null) return 'warn'
  return facts.state === 'error' || facts.error ? 'bad' : 'off'
}
