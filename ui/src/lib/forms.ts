/** The values of a form: initial values, and what a `ref` stands for. Python validates them. */
import type { Field, Json, JsonObject, Problem } from './api'
import { isExactNumber, parseJson, sameJson } from './exact-json'

/** A value, or undefined for a key that is left out. */
export type Value = Json | undefined

export function resolveRef(root: Field, field: Field): Field {
  const found = field.kind === 'ref' ? root.definitions?.[field.ref ?? ''] : undefined
  if (!found) return field
  const { name, title, description, required, nullable } = field
  return { ...found, ...(name ? { name } : {}), ...(title ? { title } : {}), ...(description ? { description } : {}), ...(required ? { required } : {}), ...(nullable ? { nullable } : {}) }
}

/** The value of a field that the user has just added. */
export function initialValue(field: Field): Value {
  if (field.has_default) return field.default
  switch (field.kind) {
    case 'const': return field.value
    case 'boolean': return false
    case 'text': case 'multiline': return ''
    case 'enum': return field.options?.[0]?.value
    case 'multi': return []
    case 'array': return (field.fields ?? []).map((each) => initialValue(each) ?? null)
    case 'choice': return field.fields?.[0] ? initialValue(field.fields[0]) : undefined
    case 'object': {
      const made: JsonObject = {}
      for (const each of field.fields ?? []) {
        const value = each.required || each.kind === 'const' ? initialValue(each) : each.has_default ? each.default : undefined
        if (value !== undefined && each.name) made[each.name] = value
      }
      return made
    }
    default: return undefined
  }
}

/** The index of the alternative that fits a value best. */
/** What a new form begins with: only what must be sent. Defaults of others are left to the server. */
export function emptyForm(field: Field, initial: Value): Value {
  if (field.kind !== 'object' || initial === null || typeof initial !== 'object' || Array.isArray(initial)) return initial
  const left = new Set((field.fields ?? []).filter((each) => each.required || each.kind === 'const').map((each) => each.name))
  return Object.fromEntries(Object.entries(initial).filter(([name]) => left.has(name)))
}

export function matchingOption(fields: Field[], value: Value): number {
  const score = (field: Field): number => {
    if (value === undefined) return 0
    if (field.kind === 'const') return sameJson(field.value, value) ? 3 : -1
    if (value === null) return field.nullable ? 2 : -1
    if (field.kind === 'enum') return field.options?.some((option) => sameJson(option.value, value)) ? 2 : typeof value === 'object' ? -1 : 0
    if (isExactNumber(value)) return field.kind === 'integer' ? 3 : field.kind === 'number' ? 2 : -1
    if (Array.isArray(value)) return field.kind === 'array' || field.kind === 'multi' ? 2 : -1
    if (typeof value === 'object') {
      if (field.kind !== 'object') return -1
      const names = new Set((field.fields ?? []).map((each) => each.name))
      let points = 1
      for (const each of field.fields ?? []) {
        const own = value[each.name ?? '']
        if (each.kind === 'const') points += own === undefined ? 0 : sameJson(own, each.value) ? 3 : -9
        else if (each.required && own === undefined) points -= 1
      }
      return points + Object.keys(value).filter((key) => names.has(key)).length - Object.keys(value).filter((key) => !names.has(key)).length
    }
    if (typeof value === 'boolean') return field.kind === 'boolean' ? 2 : -1
    if (typeof value === 'number') return field.kind === 'integer' && Number.isInteger(value) ? 3 : field.kind === 'number' ? 2 : -1
    return field.kind === 'text' || field.kind === 'multiline' ? 2 : -1
  }
  let best = 0
  fields.forEach((field, index) => {
    if (score(field) > score(fields[best] as Field)) best = index
  })
  return best
}

/** The typed number. Other text is returned unchanged; validation reports it. */
export function parseNumber(text: string): Value {
  const trimmed = text.trim()
  if (!trimmed) return undefined
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(trimmed) ? (/^-?[1-9]\d{15,}$/.test(trimmed) ? (parseJson(trimmed) as Json) : Number(trimmed)) : text
}

export const problemPlace = (problem: Problem) => problem.place || problem.path.join('.')
/** The message without its place, which is shown beside it. */
export const problemMessage = (problem: Problem) => {
  const place = problemPlace(problem)
  return place && problem.message.startsWith(`${place}: `) ? problem.message.slice(place.length + 2) : problem.message
}

export const problemsAt = (problems: readonly Problem[], path: readonly (string | number)[]) =>
  problems.filter((problem) => problem.path.length === path.length && problem.path.every((step, index) => String(step) === String(path[index])))
