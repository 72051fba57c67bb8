package token

import "unicode/utf8"

// Byte-level vocabularies spell each byte as one printable letter: printable
// Latin-1 bytes stand for themselves, the other 68 are numbered from U+0100.
// A space is "Ġ", a newline "Ċ".

const lastByteLetter = 0x143

// byteLetter[b] is the letter of byte b; letterByte undoes it, -1 elsewhere.
var byteLetter, letterByte = byteAlphabet()

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

func printableLatin(b byte) bool {
	return b >= '!' && b <= '~' || b >= 0xA1 && b != 0xAD
}

// appendLetters spells raw bytes in the byte-level alphabet.
func appendLetters(dst []byte, raw string) []byte {
	for i := range len(raw) {
		dst = utf8.AppendRune(dst, byteLetter[raw[i]])
	}
	return dst
}

// appendLetterBytes undoes appendLetters. A piece with any letter outside the
// alphabet is not byte-level (an added token, say) and is kept as it is.
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
