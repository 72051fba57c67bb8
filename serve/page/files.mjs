// Reads text files that the user attaches.

// maxFile bounds a file: the server takes no larger bodies, and often smaller ones.
const maxFile = 4 << 20;

// readFile returns the name and the text of a file, or throws a sentence for the user.
export async function readFile(file) {
  if (file.size > maxFile) throw new Error(`${file.name} is too large: ${Math.ceil(file.size / (1 << 20))} MiB; at most 4 MiB can be sent`);
  let text;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name} is not a text in UTF-8`);
  }
  if (text.includes('\u0000')) throw new Error(`${file.name} is not a text`);
  return { name: file.name, text };
}
