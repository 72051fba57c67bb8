package cli

import (
	"bytes"
	"unicode/utf8"
)

// What a terminal sends before and behind a pasted text.
const (
	PasteBegin = "\x1b[200~"
	PasteEnd   = "\x1b[201~"
)

// A key is a character, or one of these.
type key rune

const (
	keyEnter key = -1 - iota
	keyUp
	keyDown
	keyLeft
	keyRight
	keyWordLeft
	keyWordRight
	keyHome
	keyEnd
	keyBackspace
	keyDelete
	keyDeleteWord
	keyDeleteBefore
	keyDeleteBehind
	keyTranspose
	keyClear
	keyInterrupt
	keyDeleteOrEnd // Ctrl-D ends the input of an empty line
	keyPasteBegin
	keyPasteEnd
	keyUnknown
)

var controlKeys = map[byte]key{
	'A' - 64: keyHome, 'B' - 64: keyLeft, 'C' - 64: keyInterrupt, 'D' - 64: keyDeleteOrEnd, 'E' - 64: keyEnd, 'F' - 64: keyRight,
	'H' - 64: keyBackspace, 'K' - 64: keyDeleteBehind, 'L' - 64: keyClear, 'N' - 64: keyDown, 'P' - 64: keyUp, 'T' - 64: keyTranspose,
	'U' - 64: keyDeleteBefore, 'W' - 64: keyDeleteWord, 127: keyBackspace, '\r': keyEnter, '\n': keyEnter,
}

// sequences are what keys send behind the escape character.
var sequences = map[string]key{
	"[A": keyUp, "[B": keyDown, "[C": keyRight, "[D": keyLeft, "[H": keyHome, "[F": keyEnd,
	"OA": keyUp, "OB": keyDown, "OC": keyRight, "OD": keyLeft, "OH": keyHome, "OF": keyEnd,
	"[1~": keyHome, "[7~": keyHome, "[4~": keyEnd, "[8~": keyEnd, "[3~": keyDelete,
	"[1;3C": keyWordRight, "[1;3D": keyWordLeft, "[1;5C": keyWordRight, "[1;5D": keyWordLeft, "f": keyWordRight, "b": keyWordLeft,
	PasteBegin[1:]: keyPasteBegin,
}

// nextKey returns the first key of what a terminal sent, and how many bytes it takes; 0: more of it has to come. In a pasted
// text all is text but the ends of lines and of the paste.
func nextKey(sent []byte, pasting bool) (k key, n int) {
	if len(sent) == 0 {
		return 0, 0
	}
	if pasting {
		switch {
		case sent[0] == '\r' || sent[0] == '\n':
			return keyEnter, 1
		case bytes.HasPrefix(sent, []byte(PasteEnd)):
			return keyPasteEnd, len(PasteEnd)
		case len(sent) < len(PasteEnd) && PasteEnd[:len(sent)] == string(sent):
			return 0, 0
		}
	} else if k, ok := controlKeys[sent[0]]; ok {
		return k, 1
	} else if sent[0] == '\x1b' {
		return escapedKey(sent)
	}
	if !utf8.FullRune(sent) {
		return 0, 0
	}
	r, n := utf8.DecodeRune(sent)
	if r < ' ' && !pasting {
		return keyUnknown, n
	}
	return key(r), n
}

// escapedKey returns a key that begins with the escape character.
func escapedKey(sent []byte) (k key, n int) {
	if len(sent) < 2 {
		return 0, 0
	}
	end := 2
	switch sent[1] {
	case 'O': // one more
		end = 3
	case '[': // up to a letter or ~
		for end < len(sent) && (sent[end] < '@' || sent[end] > '~') {
			end++
		}
		end++
	}
	if end > len(sent) {
		return 0, 0
	}
	if k, ok := sequences[string(sent[1:end])]; ok {
		return k, end
	}
	return keyUnknown, end
}
