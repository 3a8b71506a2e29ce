/** JSON whose integers keep all their digits, also those too large for a JavaScript number. */
type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown
const raw = JSON as unknown as { rawJSON?: (text: string) => object; isRawJSON?: (value: unknown) => boolean; parse: (text: string, reviver: Reviver) => unknown }

/**
 * Returns whether the value is a number kept in its source form.
 *
 * `JSON.stringify` writes it back unchanged. For everything else it is an object, neither a number nor a string: use
 * `jsonText` and `toNumber`.
 */
export const isExactNumber = (value: unknown): boolean => raw.isRawJSON?.(value) ?? false
/** Any value as text; numbers keep all their digits. */
export const jsonText = (value: unknown): string => (typeof value === 'object' ? JSON.stringify(value) : String(value))
/** The nearest JavaScript number. */
export const toNumber = (value: unknown): number => Number(isExactNumber(value) ? JSON.stringify(value) : value)
export const sameJson = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other)

/** Parses like `JSON.parse`. Browsers without `JSON.rawJSON` round large integers. */
export function parseJson(text: string): unknown {
  const { rawJSON } = raw
  // A reviver is slow, and few texts contain such a long number.
  if (!rawJSON || !/\d{16}/.test(text)) return JSON.parse(text)
  return raw.parse(text, (_, value, context) =>
    typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER && context?.source ? rawJSON(context.source) : value)
}

/** The parsed value, or undefined if the text is not JSON. */
export function parseIfJson(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    return undefined
  }
}
