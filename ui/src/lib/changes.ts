/** A change in words, and how long each hop of its way took. */
import type { ChangeData, ChangeKind, ChangeRow, VersionFacts } from './api'

const LISTS: Record<string, 'tools' | 'resources' | 'prompts'> = {
  'tools-list-changed': 'tools', 'resources-list-changed': 'resources', 'prompts-list-changed': 'prompts',
}
export const changeKind = (change: ChangeKind | string) => LISTS[change] ?? 'updated'

/** A URI as people read it: spaces and letters as they are. */
export function decodeUri(uri: string): string {
  try {
    return decodeURI(uri)
  } catch {
    return uri
  }
}
export const changeText = (row: ChangeRow) => (row[5] === null ? `${changeKind(row[4])} list${row[9] ? `: ${row[9]}` : ''}` : decodeUri(row[5]))

/** What a resource is called in a heading: without its scheme and kind. */
export function shortName(uri: string): string {
  const rest = decodeUri(uri).replace(/^[a-z][a-z0-9+.-]*:\/\/\/?/i, '')
  return rest.replace(/^note\//, '') || uri
}

export interface Hop { words: string; /** since the hop before; null for the first, or when it is not known */ ms: number | null }

/** The hops of a change, as far as they are known; clocks of two machines may differ, so none is less than 0. */
export function hops(change: ChangeRow, data: ChangeData | null): Hop[] {
  const times = data?.times ?? {}
  const passed: [string, number | undefined][] = [
    ['changed', times.source], ['notified', times.published],
    ['received', times.received ?? (change[8] ? undefined : change[1])], ['read again', times.read],
  ]
  const known = passed.filter((entry): entry is [string, number] => typeof entry[1] === 'number')
  return known.map(([words, at], place) => {
    const before = known[place - 1]
    return { words, ms: before ? Math.max(0, (at - before[1]) * 1000) : null }
  })
}

/** The version that answered a change: the first that was read at or after it. */
export function versionAfter(versions: readonly VersionFacts[], at: number): VersionFacts | undefined {
  return versions.find((version) => version.at >= at - 0.001) ?? versions.at(-1)
}
