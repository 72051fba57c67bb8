package answer

import (
	"iter"
	"strings"
)

// callReader reads calls from the mark that begins them. It reads as from a file: where it needs more of the answer than there is,
// it waits in a coroutine until the parser feeds it.
type callReader struct {
	parser  *Parser
	wrapper *wrapper

	in    []byte // what was fed and is not released
	at    int    // of the next byte
	from  int    // behind the last complete call: what is text if no further call follows
	final bool   // there is no more

	begun   bool // the running call has a name
	calls   int  // that have begun
	written int  // bytes of the arguments of the running call

	next func() (struct{}, bool)
	stop func()
	wait func(struct{}) bool
}

func newCallReader(p *Parser, w *wrapper) *callReader {
	c := &callReader{parser: p, wrapper: w}
	if w.keep {
		c.in = append(c.in, w.open...)
	}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.wait = yield
		c.readAll()
	})
	return c
}

// more feeds text and reports whether the reader needs more behind it.
func (c *callReader) more(text string, final bool) bool {
	c.in = append(c.in, text...)
	c.final = c.final || final
	_, running := c.next()
	return running
}

// fill waits until a number of bytes follows; false at the end of the answer, or if too much would be held back for a call that has
// not begun.
func (c *callReader) fill(bytes int) bool {
	if !c.begun && c.at+bytes-c.from > maxHeld {
		return false
	}
	for len(c.in)-c.at < bytes {
		if c.final || !c.wait(struct{}{}) {
			c.final = true
			return len(c.in)-c.at >= bytes
		}
	}
	return true
}

// peek returns the next byte, 0 at the end.
func (c *callReader) peek() byte {
	if !c.fill(1) {
		return 0
	}
	return c.in[c.at]
}

// has reports whether s follows.
func (c *callReader) has(s string) bool {
	for {
		there := c.in[c.at:]
		if len(there) >= len(s) {
			return string(there[:len(s)]) == s
		}
		if string(there) != s[:len(there)] || !c.fill(len(there)+1) {
			return false
		}
	}
}

// take passes s if it follows. No text is nowhere.
func (c *callReader) take(s string) bool {
	if s == "" || !c.has(s) {
		return false
	}
	c.at += len(s)
	return true
}

// skipSpace passes white space.
func (c *callReader) skipSpace() {
	for c.fill(1) && isSpace(c.in[c.at]) {
		c.at++
	}
}

// release forgets what was read of a call that has begun.
func (c *callReader) release() {
	if c.begun {
		c.in = append(c.in[:0], c.in[c.at:]...)
		c.at, c.from = 0, 0
	}
}

// readAll reads calls until what follows is none.
func (c *callReader) readAll() {
	w := c.wrapper
	for {
		c.skipSpace()
		for c.take(w.item.open) {
			c.skipSpace()
		}
		if c.calls > 0 && c.take(w.end) {
			c.from = c.at
			return
		}
		if !c.item() {
			return
		}
		c.from = c.at
		c.skipSpace()
		if c.take(w.item.end) {
			c.from = c.at
			c.skipSpace()
		}
		if c.take(w.end) {
			c.from = c.at
			return
		}
		if separated := c.take(";") || c.take(","); !separated && w.end == "" && !(w.bare && c.has("{")) {
			return
		}
	}
}

// item reads a call, or a list of them, in any of the forms. It reports whether all that it began is complete. What was read before
// a call begins is text if it turns out not to be one.
func (c *callReader) item() bool {
	fenced := c.takeFence()
	if !c.form() {
		if c.begun { // what is wrong in a call ends it
			c.begun, c.from = false, c.at
		}
		return false
	}
	c.closeFence(fenced)
	return true
}

// takeFence passes the line that opens a block of code.
func (c *callReader) takeFence() bool {
	if !c.take("```") {
		return false
	}
	c.name()
	c.skipSpace()
	return true
}

func (c *callReader) form() bool {
	switch {
	case c.has("{"):
		return c.object()
	case c.take("["):
		return c.list()
	case c.take("<function="):
		return c.function()
	case c.take("<invoke name=\""):
		return c.invoke("")
	case c.take("<｜DSML｜invoke name=\""):
		return c.invoke("｜DSML｜")
	case c.take("call:"):
		name := c.name()
		return c.has("{") && c.begin(name) && c.fields(c.gemmaField) && c.end()
	}
	return c.named()
}

// list reads the calls of a list.
func (c *callReader) list() bool {
	for {
		c.skipSpace()
		switch {
		case c.take("]"):
			return c.calls > 0
		case c.take(","):
			continue
		}
		ok := false
		if c.has("{") {
			ok = c.object()
		} else {
			ok = c.python(c.name())
		}
		if !ok {
			return false
		}
		c.from = c.at
	}
}

// named reads a call that begins with the name of the tool.
func (c *callReader) named() bool {
	name := c.name()
	if name == "" {
		return false
	}
	if c.has("(") {
		return c.python(strings.TrimSuffix(name, ".call"))
	}
	switch {
	case c.take("<｜tool▁sep｜>"):
		if name == "function" { // its kind is before its name
			c.skipSpace()
			name = c.name()
		}
	case c.take("<|tool_call_argument_begin|>"):
		name, _, _ = strings.Cut(name, ":")
	case c.take("[CALL_ID]"):
		c.name()
	}
	c.take("[ARGS]")
	c.take("<tool_sep>")
	c.skipSpace()
	switch {
	case c.has("<arg_key>"):
		return c.begin(name) && c.pairs() && c.end()
	case c.wrapper.end != "" && c.parser.tools.has(name) && c.has(c.wrapper.end):
		return c.begin(name) && c.write("{}") && c.end()
	}
	fenced := c.takeFence()
	if !c.has("{") || !c.beginJSON(name) || !c.copyValue(c.write) || !c.end() {
		return false
	}
	c.closeFence(fenced)
	return true
}

// closeFence passes the end of a block of code behind a call, if there was a beginning.
func (c *callReader) closeFence(fenced bool) {
	if fenced {
		c.from = c.at
		c.skipSpace()
		c.take("```")
	}
}

// name reads the name of a tool or an argument; "" if there is none.
func (c *callReader) name() string {
	n := 0
	for n <= maxName && c.fill(n+1) && isName(c.in[c.at+n]) {
		n++
	}
	if n > maxName {
		return ""
	}
	name := string(c.in[c.at : c.at+n])
	c.at += n
	return name
}

func isName(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '-' || b == '.' || b == ':' || b == '/'
}

// begin begins a call whose arguments become JSON here. A held tool has none.
func (c *callReader) begin(name string) bool { return c.beginCall(name, false) }

// beginJSON begins a call whose arguments follow as JSON. Those of a held tool are an object.
func (c *callReader) beginJSON(name string) bool { return c.beginCall(name, c.has("{")) }

// refuse notes that what follows would be a call of a held tool, but is not in the form of one.
func (c *callReader) refuse() bool {
	c.parser.refused = true
	return false
}

func (c *callReader) beginCall(name string, object bool) bool {
	t := c.parser.tools
	if !t.has(name) {
		if c.wrapper.bare || name == "" || len(name) > maxName {
			return false
		}
		name = strings.TrimPrefix(name, "functions.")
		for i := range len(name) {
			if !isName(name[i]) {
				return false
			}
		}
	}
	if !object && t.held[name] {
		return c.refuse()
	}
	if !c.parser.begin(name) {
		return false
	}
	c.begun, c.written = true, 0
	c.calls++
	return true
}

// write adds to the arguments of the call.
func (c *callReader) write(json string) bool {
	if c.written += len(json); c.written > maxArguments {
		return false
	}
	if json != "" {
		c.parser.parts = append(c.parser.parts, Part{Kind: Call, Text: json})
	}
	return true
}

// end ends the call.
func (c *callReader) end() bool {
	c.parser.parts = append(c.parser.parts, Part{Kind: Call, Ends: true})
	c.begun, c.from = false, c.at
	return true
}

// until reads what is before a mark, and passes the mark.
func (c *callReader) until(end string, most int) (string, bool) {
	for n := 0; n <= most; n++ {
		if !c.fill(n + 1) {
			return "", false
		}
		if c.in[c.at+n] != end[0] {
			continue
		}
		at := c.at
		c.at += n
		there := c.take(end)
		text := string(c.in[at : at+n])
		if there {
			return text, true
		}
		c.at = at
	}
	return "", false
}
