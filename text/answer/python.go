package answer

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// python reads the arguments of a call as in Python, behind its name.
func (c *callReader) python(name string) bool {
	if name == "" || !c.take("(") || !c.begin(name) || !c.write("{") {
		return false
	}
	for n := 0; ; n++ {
		c.skipSpace()
		if c.take(")") {
			return c.write("}") && c.end()
		}
		if n > 0 && c.take(",") {
			c.skipSpace()
			if c.take(")") {
				return c.write("}") && c.end()
			}
		}
		key := ""
		if b := c.peek(); b != '"' && b != '\'' && b != '[' && b != '{' {
			at := c.at
			key = c.name()
			c.skipSpace()
			if !c.take("=") { // a value without a name
				key, c.at = "", at
			}
		}
		if key == "" {
			if key = c.parser.tools.argument(c.tool(), n); key == "" {
				return false
			}
		}
		c.skipSpace()
		value, ok := c.pythonValue(0)
		if !ok || !c.key(n, key) || !c.write(value) {
			return false
		}
	}
}

// pythonValue returns the JSON of a literal of Python or JSON.
func (c *callReader) pythonValue(depth int) (string, bool) {
	if depth == maxNesting {
		return "", false
	}
	switch b := c.peek(); b {
	case '"', '\'':
		text, ok := c.pythonText()
		return Quote(text), ok
	case '[', '(':
		c.at++
		end := map[byte]string{'[': "]", '(': ")"}[b]
		return c.values(depth, "[", end, "]", func() (string, bool) { return c.pythonValue(depth + 1) })
	case '{':
		c.at++
		return c.values(depth, "{", "}", "}", func() (string, bool) {
			key, ok := c.pythonText()
			c.skipSpace()
			if !ok || !c.take(":") {
				return "", false
			}
			c.skipSpace()
			value, ok := c.pythonValue(depth + 1)
			return Quote(key) + ": " + value, ok
		})
	}
	return c.literal()
}

// pythonJSON returns the JSON of a text that is one literal of Python.
func pythonJSON(text string) (string, bool) {
	c := &callReader{in: []byte(text), final: true}
	value, ok := c.pythonValue(0)
	return value, ok && c.at == len(c.in)
}

// values reads what is between brackets, separated by commas.
func (c *callReader) values(depth int, open, end, closes string, one func() (string, bool)) (string, bool) {
	var b strings.Builder
	b.WriteString(open)
	for n := 0; ; n++ {
		c.skipSpace()
		if n > 0 && c.take(",") {
			c.skipSpace()
		}
		if c.take(end) {
			b.WriteString(closes)
			return b.String(), true
		}
		value, ok := one()
		if !ok || b.Len()+len(value) > maxArguments {
			return "", false
		}
		if n > 0 {
			b.WriteString(", ")
		}
		b.WriteString(value)
	}
}

// literal reads a number or a constant.
func (c *callReader) literal() (string, bool) {
	const most = 400
	n := 0
	for n < most && c.fill(n+1) && (isName(c.in[c.at+n]) || c.in[c.at+n] == '+') && c.in[c.at+n] != ':' {
		n++
	}
	word := string(c.in[c.at : c.at+n])
	c.at += n
	switch word {
	case "True", "False":
		return strings.ToLower(word), true
	case "None":
		return "null", true
	}
	if plain := strings.ReplaceAll(strings.TrimPrefix(word, "+"), "_", ""); word != "" && json.Valid([]byte(plain)) {
		return plain, true
	}
	return "", false
}

// pythonText reads a string in quotes of either kind.
func (c *callReader) pythonText() (string, bool) {
	q := c.peek()
	if q != '"' && q != '\'' {
		return "", false
	}
	quotes := string(q)
	if c.has(strings.Repeat(quotes, 3)) {
		quotes = strings.Repeat(quotes, 3)
	}
	c.at += len(quotes)
	var b []byte
	for len(b) <= maxArguments && !c.take(quotes) {
		if !c.fill(1) {
			return "", false
		}
		next := c.in[c.at]
		c.at++
		if next != '\\' {
			b = append(b, next)
			continue
		}
		if !c.fill(1) {
			return "", false
		}
		b = c.unescape(b)
	}
	return string(b), len(b) <= maxArguments
}

// unescape appends what is meant by the escape whose backslash was read.
func (c *callReader) unescape(b []byte) []byte {
	e := c.in[c.at]
	c.at++
	digits := 0
	switch e {
	case 'n':
		return append(b, '\n')
	case 't':
		return append(b, '\t')
	case 'r':
		return append(b, '\r')
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	case '\\', '\'', '"', '/':
		return append(b, e)
	case '\n':
		return b
	}
	if digits > 0 && c.fill(digits) {
		if r, ok := hexRune(c.in[c.at : c.at+digits]); ok {
			c.at += digits
			return utf8.AppendRune(b, r)
		}
	}
	return append(b, '\\', e)
}

func hexRune(digits []byte) (r rune, ok bool) {
	for _, d := range digits {
		switch {
		case d >= '0' && d <= '9':
			r = r<<4 | rune(d-'0')
		case d >= 'a' && d <= 'f':
			r = r<<4 | rune(d-'a'+10)
		case d >= 'A' && d <= 'F':
			r = r<<4 | rune(d-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// fields reads the fields of an object whose names have no quotes, and writes them.
func (c *callReader) fields(field func() (string, bool)) bool {
	if !c.take("{") || !c.write("{") {
		return false
	}
	for n := 0; ; n++ {
		c.skipSpace()
		if n > 0 && c.take(",") {
			c.skipSpace()
		}
		if c.take("}") {
			return c.write("}")
		}
		text, ok := field()
		if n > 0 {
			text = ", " + text
		}
		if !ok || !c.write(text) {
			return false
		}
	}
}

// gemmaQuotes enclose strings in calls of Gemma.
var gemmaQuotes = []string{"<escape>", `<|"|>`}

// gemmaField reads a field: its name, and a value in which strings have marks instead of quotes.
func (c *callReader) gemmaField() (string, bool) { return c.gemmaFieldAt(0) }

func (c *callReader) gemmaFieldAt(depth int) (string, bool) {
	var key string
	var ok bool
	if text, isText, ended := c.gemmaText(); isText {
		key, ok = text, ended
	} else if c.has(`"`) {
		key, ok = c.text(maxName)
	} else {
		key, ok = c.until(":", maxName)
		c.at--
	}
	c.skipSpace()
	if !ok || !c.take(":") {
		return "", false
	}
	c.skipSpace()
	value, ok := c.gemmaValue(depth)
	return Quote(strings.Trim(key, space)) + ": " + value, ok
}

// gemmaText reads a string between marks.
func (c *callReader) gemmaText() (text string, isText, ok bool) {
	for _, mark := range gemmaQuotes {
		if c.take(mark) {
			text, ok = c.until(mark, maxArguments)
			return text, true, ok
		}
	}
	return "", false, false
}

func (c *callReader) gemmaValue(depth int) (string, bool) {
	if depth == maxNesting {
		return "", false
	}
	if text, isText, ok := c.gemmaText(); isText {
		return Quote(text), ok
	}
	switch c.peek() {
	case '[':
		c.at++
		return c.values(depth, "[", "]", "]", func() (string, bool) { return c.gemmaValue(depth + 1) })
	case '{':
		c.at++
		return c.values(depth, "{", "}", "}", func() (string, bool) { return c.gemmaFieldAt(depth + 1) })
	case '"', '\'':
		text, ok := c.pythonText()
		return Quote(text), ok
	}
	return c.literal()
}

// writePython writes a call as in Python, with values of JSON.
func writePython(b *strings.Builder, name, arguments string) {
	b.WriteString(name + "(")
	var values map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &values) == nil {
		d := json.NewDecoder(strings.NewReader(arguments))
		_, _ = d.Token() // the brace of an object, as Unmarshal has found
		for n := 0; d.More(); n++ {
			key, err := d.Token()
			var value json.RawMessage
			if err != nil || d.Decode(&value) != nil {
				break
			}
			if n > 0 {
				b.WriteString(", ")
			}
			b.WriteString(key.(string) + "=")
			writeLiteral(b, value)
		}
	}
	b.WriteString(")")
}

// writeLiteral writes JSON as a literal of Python.
func writeLiteral(b *strings.Builder, raw []byte) {
	inString := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			b.Write(raw[i : i+2])
			i++
			continue
		case c == '"':
			inString = !inString
		case !inString && c >= 'a' && c <= 'z' && (i == 0 || raw[i-1] < '0' || raw[i-1] > '9'):
			word := map[byte]string{'t': "True", 'f': "False", 'n': "None"}[c]
			b.WriteString(word)
			i += map[byte]int{'t': 3, 'f': 4, 'n': 3}[c]
			continue
		}
		b.WriteByte(raw[i])
	}
}
