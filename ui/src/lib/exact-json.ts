/** JSON whose whole numbers stay as they are written, also those that a number of JavaScript cannot hold. */
type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown
const raw = JSON as unknown as { rawJSON?: (text: string) => object; isRawJSON?: (value: unknown) => boolean; parse: (text: string, reviver: Reviver) => unknown }

/**
 * Is it a number that is kept as it was written? `JSON.stringify` gives it back; to all else it is an object that can be
 * neither reckoned with nor put into a text: see `shown` and `rounded`.
 */
export const isExactNumber = (value: unknown): boolean => raw.isRawJSON?.(value) ?? false
/** Any value as a text; numbers as they were written. */
export const jsonText = (value: unknown): string => (typeof value === 'object' ? JSON.stringify(value) : String(value))
/** A number to reckon with, as near as JavaScript has it. */
export const toNumber = (value: unknown): number => Number(isExactNumber(value) ? JSON.stringify(value) : value)
/** Are they the same as JSON? */
export const sameJson = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other)

/** As `JSON.parse`. A browser that knows no exact numbers rounds them, as it always did. */
export function parseJson(text: string): unknown {
  const { rawJSON } = raw
  // To look at each number takes its time, and few texts have one that is so long.
  if (!rawJSON || !/\d{16}/.test(text)) return JSON.parse(text)
  return raw.parse(text, (_, value, context) =>
    typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER && context?.source ? rawJSON(context.source) : value)
}
