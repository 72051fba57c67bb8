package token

import "unicode/utf8"

// Byte-level vocabularies spell each byte as one printable letter. Printable Latin-1
// bytes represent themselves. The other 68 bytes map to the letters from U+0100: a
// space is "Ġ", a newline "Ċ".

// lastByteLetter is the letter of the last non-printable byte: U+0100 plus 67.
const lastByteLetter = 0x143

// byteLetter[b] is the letter of byte b. letterByte is the inverse, with -1 for letters
// outside the alphabet.
var byteLetter, letterByte = byteAlphabet()

// byteAlphabet builds the alphabet in the order that GPT-2 defined.
func byteAlphabet() (letters [256]rune, bytes [lastByteLetter + 1]int16) {
	for i := range bytes {
		bytes[i] = -1
	}
	next := rune(0x100)
	for b := range 256 {
		letter := rune(b)
		if !printableLatin(byte(b)) {
			letter = next
			next++
		}
		letters[b] = letter
		bytes[letter] = int16(b)
	}
	return letters, bytes
}

// printableLatin reports whether a Latin-1 byte represents itself. The soft hyphen 0xAD
// is excluded.
func printableLatin(b byte) bool {
	return b >= '!' && b <= '~' || b >= 0xA1 && b != 0xAD
}

// appendLetters appends the byte-level spelling of raw.
func appendLetters(dst []byte, raw string) []byte {
	for i := range len(raw) {
		dst = utf8.AppendRune(dst, byteLetter[raw[i]])
	}
	return dst
}

// appendLetterBytes appends the bytes that piece spells. A piece with a letter outside
// the alphabet, such as an added token, is appended unchanged.
func appendLetterBytes(dst []byte, piece string) []byte {
	start := len(dst)
	for _, r := range piece {
		if r < 0 || r > lastByteLetter || letterByte[r] < 0 {
			return append(dst[:start], piece...)
		}
		dst = append(dst, byte(letterByte[r]))
	}
	return dst
}
