package answer

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// function reads a call behind <function=: its name, and arguments as elements or as JSON.
func (c *callReader) function() bool {
	name, ok := c.until(">", maxName)
	if !ok {
		return false
	}
	c.skipSpace()
	if !c.has("{") && !c.has("<parameter=") && !c.has("</function>") {
		return false
	}
	if !c.beginJSON(strings.Trim(name, `" `)) {
		return false
	}
	if c.has("{") {
		if !c.copyValue(c.write) || !c.end() {
			return false
		}
		c.skipSpace()
		if c.take("</function>") {
			c.from = c.at
		}
		return true
	}
	return c.elements("<parameter=", ">", "</parameter>", "</function>", true)
}

// invoke reads a call behind <invoke name=".
func (c *callReader) invoke(tag string) bool {
	name, ok := c.until(`">`, maxName)
	if !ok || !c.begin(name) {
		return false
	}
	return c.elements("<"+tag+`parameter name="`, ">", "</"+tag+"parameter>", "</"+tag+"invoke>", false)
}

// elements reads arguments that are elements. With lines, a value has a line break before and behind it.
func (c *callReader) elements(open, opened, closes, end string, lines bool) bool {
	if !c.write("{") {
		return false
	}
	for n := 0; ; n++ {
		c.skipSpace()
		if c.take(end) {
			return c.write("}") && c.end()
		}
		if !c.take(open) {
			return false
		}
		key, ok := c.until(opened, maxName)
		if !ok {
			return false
		}
		key, attributes, _ := strings.Cut(key, `"`)
		types := c.parser.tools.types(c.tool(), key)
		if strings.Contains(attributes, `string="true"`) {
			types = textType
		} else if strings.Contains(attributes, `string="false"`) {
			types = anyType
		}
		if !c.key(n, key) || !c.element(types, closes, lines) {
			return false
		}
	}
}

// tool returns the name of the running call.
func (c *callReader) tool() string { return c.parser.running }

// key writes the name of an argument.
func (c *callReader) key(n int, key string) bool {
	before := ""
	if n > 0 {
		before = ", "
	}
	return c.write(before + Quote(key) + ": ")
}

// element writes the value of an element. A text is written as it comes.
func (c *callReader) element(types types, closes string, lines bool) bool {
	if types != textType {
		raw, ok := c.until(closes, maxArguments)
		if lines {
			raw = strings.TrimSuffix(strings.TrimPrefix(raw, "\n"), "\n")
		}
		return ok && c.write(types.json(raw))
	}
	if lines {
		c.take("\n")
	}
	var b strings.Builder
	b.WriteByte('"')
	for {
		text, found := string(c.in[c.at:]), false
		if i := strings.Index(text, closes); i >= 0 {
			text, found = text[:i], true
			c.at += i + len(closes)
			if lines {
				text = strings.TrimSuffix(text, "\n")
			}
		} else { // the end of the text may be part of the mark, or the line break before it
			n := max(0, len(text)-len(closes))
			for n > 0 && !utf8.RuneStart(text[n]) {
				n--
			}
			text = text[:n]
			c.at += n
		}
		escape(&b, text)
		if found {
			b.WriteByte('"')
		}
		if !c.write(b.String()) {
			return false
		}
		if found {
			return true
		}
		b.Reset()
		c.release()
		if !c.fill(len(c.in) + 1) {
			return false
		}
	}
}

// pairs reads arguments whose names and values are elements.
func (c *callReader) pairs() bool {
	if !c.write("{") {
		return false
	}
	for n := 0; ; n++ {
		c.skipSpace()
		if !c.take("<arg_key>") {
			return c.write("}")
		}
		key, ok := c.until("</arg_key>", maxName)
		if !ok {
			return false
		}
		c.skipSpace()
		key = strings.Trim(key, space)
		if !c.take("<arg_value>") || !c.key(n, key) || !c.element(c.parser.tools.types(c.tool(), key), "</arg_value>", false) {
			return false
		}
	}
}

// types are the types that an argument may have.
type types uint8

const (
	anyType  types = iota // unknown
	textType              // a text
	others                // no text
)

// json returns the JSON of a value that is written without quotes.
func (t types) json(raw string) string {
	trimmed := strings.Trim(raw, space)
	switch {
	case t == textType || trimmed == "":
		return Quote(raw)
	case json.Valid([]byte(trimmed)) && (t == others || trimmed[0] != '"'):
		return trimmed
	case t == others || trimmed[0] == '[' || trimmed[0] == '{':
		if value, ok := pythonJSON(trimmed); ok {
			return value
		}
	}
	return Quote(raw)
}
