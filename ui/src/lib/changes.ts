/** How a change is shown: its text, and the time that each hop took. */
import { visible } from './text-lines'
import type { ChangeData, ChangeKind, ChangeRow, VersionFacts } from './api'

const LISTS: Record<string, 'tools' | 'resources' | 'prompts'> = {
  'tools-list-changed': 'tools', 'resources-list-changed': 'resources', 'prompts-list-changed': 'prompts',
}
export const changeKind = (change: ChangeKind | string) => LISTS[change] ?? 'updated'

/** A URI with its percent-encoding removed, for reading. */
export function decodeUri(uri: string): string {
  try {
    return visible(decodeURI(uri))
  } catch {
    return visible(uri)
  }
}
export const changeText = (row: ChangeRow) => (row.uri === undefined ? `${changeKind(row.change)} list${row.different ? `: ${row.different}` : ''}` : decodeUri(row.uri))

/** A URI without its scheme and kind, for headings. */
export function shortName(uri: string): string {
  const rest = decodeUri(uri).replace(/^[a-z][a-z0-9+.-]*:\/\/\/?/i, '')
  return rest.replace(/^note\//, '') || uri
}

export interface Hop { label: string; /** since the previous hop; null for the first, or if unknown */ ms: number | null }

/** The known hops of a change. Clocks of two machines may differ, so no duration is below 0. */
export function hops(change: ChangeRow, data: ChangeData | null): Hop[] {
  const times = data?.times ?? {}
  const passed: [string, number | undefined][] = [
    ['changed', times.source], ['notified', times.published],
    ['received', times.received ?? (change.away ? undefined : change.at)], ['read again', times.read],
  ]
  const known = passed.filter((entry): entry is [string, number] => typeof entry[1] === 'number')
  return known.map(([label, at], place) => {
    const before = known[place - 1]
    return { label, ms: before ? Math.max(0, (at - before[1]) * 1000) : null }
  })
}

/** The version that belongs to a change: the first one read at or after it. */
export function versionAfter(versions: readonly VersionFacts[], at: number): VersionFacts | undefined {
  return versions.find((version) => version.at >= at - 0.001) ?? versions.at(-1)
}
