/** Binary contents and downloads. */

/** Returns whether the browser can show an image of this media type without running anything. */
export const isImage = (mimeType: string) => /^image\/(png|jpeg|gif|webp|avif|bmp)$/.test(mimeType)
/** The number of bytes that a base64 text stands for. */
export const base64Size = (data: string) => Math.floor((data.length * 3) / 4)

/** Offers a text to the user as a file. */
export function download(name: string, text: string, type: string): void {
  const anchor = document.createElement('a')
  anchor.href = URL.createObjectURL(new Blob([text], { type }))
  anchor.download = name
  anchor.click()
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000)
}
