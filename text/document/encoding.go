package document

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// encoding is how the characters of a text are stored.
type encoding int

const (
	plainText encoding = iota // UTF-8
	markedUTF8
	littleUTF16
	bigUTF16
	wideUTF32
)

// encodingOf returns the encoding that a byte order mark tells, or that the zero bytes of Latin letters in
// UTF-16 without one do.
func encodingOf(head []byte) encoding {
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe\x00\x00")), bytes.HasPrefix(head, []byte("\x00\x00\xfe\xff")):
		return wideUTF32
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		return markedUTF8
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		return littleUTF16
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return bigUTF16
	}
	return unmarked(head)
}

// encodingHead is how many bytes tell UTF-16 without a byte order mark, and leastHead how many are enough.
const encodingHead, leastHead = 512, 16

// unmarked recognizes UTF-16 without a byte order mark: nearly every second byte is zero, and no other one is.
func unmarked(head []byte) encoding {
	head = head[:min(len(head), encodingHead)&^1]
	var zeros [2]int // at even and odd places
	for i, c := range head {
		if c == 0 {
			zeros[i%2]++
		}
	}
	most := len(head) / 2 * 9 / 10
	switch {
	case len(head) < leastHead:
	case zeros[0] == 0 && zeros[1] >= most:
		return littleUTF16
	case zeros[1] == 0 && zeros[0] >= most:
		return bigUTF16
	}
	return plainText
}

// decode returns the text of r as UTF-8.
func decode(r io.Reader, e encoding) io.Reader {
	switch e {
	case markedUTF8:
		return &skipping{r: r, bytes: 3}
	case littleUTF16:
		return &utf16Reader{r: r, order: binary.LittleEndian}
	case bigUTF16:
		return &utf16Reader{r: r, order: binary.BigEndian}
	}
	return r
}

// skipping leaves out the first bytes.
type skipping struct {
	r     io.Reader
	bytes int64
}

func (s *skipping) Read(p []byte) (int, error) {
	if s.bytes > 0 {
		n, err := io.CopyN(io.Discard, s.r, s.bytes)
		if s.bytes -= n; err != nil {
			return 0, err
		}
	}
	return s.r.Read(p)
}

// utf16Reader converts UTF-16. A surrogate without its partner is an error.
type utf16Reader struct {
	r     io.Reader
	order binary.ByteOrder
	off   int64
	in    [4096]byte
	out   []byte // what was converted and not read
	kept  []byte // of in, bytes that are not converted yet
	begun bool
	err   error
}

func (u *utf16Reader) Read(p []byte) (int, error) {
	for len(u.out) == 0 && u.err == nil {
		u.fill()
	}
	n := copy(p, u.out)
	u.out = u.out[n:]
	if n == 0 {
		return 0, u.err
	}
	return n, nil
}

// fill converts the next bytes.
func (u *utf16Reader) fill() {
	held := copy(u.in[:], u.kept)
	n, err := io.ReadAtLeast(u.r, u.in[held:], 1)
	text := u.in[:held+n]
	u.out = u.out[:0]
	ended := err != nil
	if err != nil && !errors.Is(err, io.EOF) {
		u.err = err
		return
	}
	for len(text) >= 2 {
		c, size := rune(u.order.Uint16(text)), 2
		if utf16.IsSurrogate(c) {
			if len(text) < 4 && !ended {
				break
			}
			second := rune(0)
			if len(text) >= 4 {
				second = rune(u.order.Uint16(text[2:]))
			}
			if c = utf16.DecodeRune(c, second); c == utf8.RuneError {
				u.err = &Refused{What: fmt.Sprintf("no UTF-16 (half a character at offset %d)", u.off), Hint: "name a text"}
				return
			}
			size = 4
		}
		if u.begun || c != '\ufeff' {
			u.out = utf8.AppendRune(u.out, c)
		}
		u.begun, u.off, text = true, u.off+int64(size), text[size:]
	}
	u.kept = text
	if ended {
		u.err = io.EOF
		if len(text) > 0 {
			u.err = &Refused{What: "UTF-16 with half a character at its end", Hint: "name a complete text"}
		}
	}
}
