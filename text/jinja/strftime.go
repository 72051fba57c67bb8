package jinja

import (
	"strings"
	"time"
)

// layouts maps directives of strftime in the C locale to Go's time layouts.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'c': "Mon Jan _2 15:04:05 2006",
	'd': "02", 'D': "01/02/06", 'e': "_2", 'F': "2006-01-02", 'h': "Jan", 'H': "15", 'I': "03",
	'j': "002", 'm': "01", 'M': "04", 'p': "PM", 'r': "03:04:05 PM", 'R': "15:04", 'S': "05",
	'T': "15:04:05", 'x': "01/02/06", 'X': "15:04:05", 'y': "06", 'Y': "2006",
}

// strftime formats t with C's directives. It preserves an unknown directive. %z and %Z
// expand to the empty string, because templates see the local time without its zone.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		// The flags -, _ and 0 are extensions of glibc.
		flag := byte(0)
		if (format[i] == '-' || format[i] == '_' || format[i] == '0') && i+1 < len(format) {
			flag = format[i]
			i++
		}
		text, ok := directive(t, format[i])
		if !ok {
			text = "%" + format[i:i+1]
			if flag != 0 {
				text = "%" + string(flag) + format[i:i+1]
			}
			b.WriteString(text)
			continue
		}
		b.WriteString(repad(text, flag))
	}
	return b.String()
}

// directive formats one directive. ok is false for an unknown directive.
func directive(t time.Time, code byte) (string, bool) {
	if layout, ok := layouts[code]; ok {
		return t.Format(layout), true
	}
	isoYear, isoWeek := t.ISOWeek()
	switch code {
	case '%':
		return "%", true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case 'z', 'Z':
		return "", true
	case 'f':
		return zeroPad(t.Nanosecond()/1000, 6), true
	case 's':
		return formatInt(t.Unix()), true
	case 'w':
		return formatInt(int64(t.Weekday())), true
	case 'u':
		return formatInt(int64((t.Weekday()+6)%7 + 1)), true
	case 'U': // weeks start on Sunday
		return zeroPad((t.YearDay()+6-int(t.Weekday()))/7, 2), true
	case 'W': // weeks start on Monday
		return zeroPad((t.YearDay()+6-int(t.Weekday()+6)%7)/7, 2), true
	case 'V':
		return zeroPad(isoWeek, 2), true
	case 'G':
		return formatInt(int64(isoYear)), true
	case 'g':
		return zeroPad(isoYear%100, 2), true
	case 'C':
		return zeroPad(t.Year()/100, 2), true
	case 'k':
		return repad(zeroPad(t.Hour(), 2), '_'), true
	case 'l':
		return repad(t.Format("03"), '_'), true
	case 'P':
		return t.Format("pm"), true
	}
	return "", false
}

// zeroPad pads n with zeros to a width.
func zeroPad(n, width int) string {
	s := formatInt(int64(n))
	return strings.Repeat("0", max(width-len(s), 0)) + s
}

// repad changes the padding of a number: the flag - removes it, _ pads with spaces, 0
// pads with zeros.
func repad(text string, flag byte) string {
	body := strings.TrimLeft(text, " 0")
	if body == "" && text != "" {
		body = text[len(text)-1:]
	}
	lead := len(text) - len(body)
	switch flag {
	case '-':
		return body
	case '_':
		return strings.Repeat(" ", lead) + body
	case '0':
		return strings.Repeat("0", lead) + body
	}
	return text
}
