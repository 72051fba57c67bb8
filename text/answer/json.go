package answer

import (
	"encoding/json"
	"slices"
	"strings"
)

// besideName are what objects may have before the name of a tool.
var besideName = []string{"type", "id", "tool_call_id", "index"}

// object reads a call that is a JSON object with a name and arguments. Arguments that follow the name are written as they come.
func (c *callReader) object() bool {
	c.take("{")
	name, early, began := "", "", false
	for first := true; ; first = false {
		c.skipSpace()
		if c.take("}") {
			break
		}
		if !first && c.take(",") {
			c.skipSpace()
		}
		key, ok := c.text(maxName)
		c.skipSpace()
		if !ok || !c.take(":") {
			return false
		}
		c.skipSpace()
		switch {
		case key == "function" && c.has("{"): // as in requests
			if began || !c.object() {
				return false
			}
			began, c.begun = true, true // until its outer brace
		case (key == "name" || key == "tool_name" || key == "function") && c.has(`"`) && name == "":
			if name, ok = c.text(maxName); !ok || name == "" {
				return false
			}
		case key == "arguments" || key == "parameters":
			switch {
			case name != "":
				ok, began = c.beginJSON(name) && c.arguments(), true
			case len(c.parser.tools.held) > 0: // the name is not known
				return c.refuse()
			default:
				early, ok = c.capture()
			}
			if !ok {
				return false
			}
		case first && c.has("{") && c.parser.tools.has(key): // the name is the key
			name, began = key, true
			if !c.beginJSON(name) || !c.arguments() {
				return false
			}
		case name == "" && early == "" && !slices.Contains(besideName, key):
			return false // another object
		default:
			if !c.copyValue(func(string) bool { return true }) {
				return false
			}
		}
	}
	switch {
	case name == "" && !began:
		return false
	case name == "":
		c.begun, c.from = false, c.at
		return true
	case !began:
		if early == "" {
			early = "{}"
		}
		if !c.begin(name) || !c.write(early) {
			return false
		}
	}
	return c.end()
}

// arguments writes the value of arguments: an object, or its JSON as a string.
func (c *callReader) arguments() bool {
	if c.has("{") {
		return c.copyValue(c.write)
	}
	text, ok := c.capture()
	return ok && c.write(text)
}

// capture reads a value of arguments.
func (c *callReader) capture() (string, bool) {
	if c.has(`"`) {
		text, ok := c.text(maxArguments)
		if trimmed := strings.Trim(text, space); ok && strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)) {
			return trimmed, true
		}
		return Quote(text), ok
	}
	var b strings.Builder
	ok := c.copyValue(func(s string) bool {
		b.WriteString(s)
		return b.Len() <= maxArguments
	})
	if b.String() == "null" {
		return "{}", ok
	}
	return b.String(), ok
}

// text reads a JSON string.
func (c *callReader) text(most int) (text string, ok bool) {
	if !c.has(`"`) {
		return "", false
	}
	for n := 1; n <= most+1 && c.fill(n+1); n++ {
		switch c.in[c.at+n] {
		case '\\':
			n++
			if !c.fill(n + 1) {
				return "", false
			}
		case '"':
			raw := c.in[c.at : c.at+n+1]
			c.at += n + 1
			if json.Unmarshal(raw, &text) == nil {
				return text, true
			}
			return string(raw[1:n]), true // a line break that is not escaped
		}
	}
	return "", false
}

// copyValue passes the JSON of a value to out as it comes.
func (c *callReader) copyValue(out func(json string) bool) bool {
	var open [maxNesting]byte
	depth, inString, escaped := 0, false, false
	begun := false // the value has a byte, which may be passed on already
	start := c.at
	for {
		if c.at == len(c.in) {
			if !out(string(c.in[start:c.at])) {
				return false
			}
			start = c.at
			if c.begun {
				c.release()
				start = c.at
			}
			if !c.fill(1) {
				return depth == 0 && !inString
			}
		}
		b := c.in[c.at]
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped, inString = b == '\\', b != '"'
		case b == '"':
			inString = true
		case b == '{' || b == '[':
			if depth == maxNesting {
				out(string(c.in[start:c.at]))
				return false
			}
			open[depth] = b + 2 // the closing one
			depth++
		case b == '}' || b == ']':
			if depth == 0 {
				return begun && out(string(c.in[start:c.at]))
			}
			if depth--; open[depth] != b {
				out(string(c.in[start:c.at]))
				return false
			}
		case depth == 0 && (b == ',' || isSpace(b)):
			return out(string(c.in[start:c.at]))
		}
		c.at++
		begun = true
		if depth == 0 && !inString && (b == '}' || b == ']' || b == '"') {
			return out(string(c.in[start:c.at]))
		}
	}
}

// Quote returns the JSON of a string. Characters that need no escape stay as they are.
func Quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	escape(&b, s)
	b.WriteByte('"')
	return b.String()
}

// escape writes what is between the quotes of a JSON string.
func escape(b *strings.Builder, s string) {
	const hex = "0123456789abcdef"
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\r':
			b.WriteString(`\r`)
		case c < ' ':
			b.WriteString(`\u00`)
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		default:
			b.WriteByte(c)
		}
	}
}
