package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// encode returns a value as JSON without the escapes that only HTML needs, with a line break behind it.
func encode(buffer *bytes.Buffer, v any) error {
	e := json.NewEncoder(buffer)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// writeJSON answers with one JSON value.
func writeJSON(w http.ResponseWriter, status int, v any) {
	var buffer bytes.Buffer
	if err := encode(&buffer, v); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(buffer.Bytes()) // a client that has left needs no answer
}

// writeJSONList answers with an object that has a list of n elements under a name, and the members of rest. It writes element by element,
// because a long list as one text would take several times its own memory.
func writeJSONList(w http.ResponseWriter, name string, n int, element func(i int) any, rest any) {
	var buffer, others bytes.Buffer
	if err := encode(&others, rest); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	separator := fmt.Sprintf("{%q:[", name)
	for i := range n {
		buffer.Reset()
		buffer.WriteString(separator)
		if encode(&buffer, element(i)) != nil { // a model whose vectors have no numbers
			panic(http.ErrAbortHandler)
		}
		if _, err := w.Write(buffer.Bytes()[:buffer.Len()-len("\n")]); err != nil {
			return // the client has left
		}
		separator = ","
	}
	if n > 0 {
		separator = ""
	}
	_, _ = fmt.Fprintf(w, "%s],%s", separator, others.Bytes()[len("{"):]) // a client that has left needs no answer
}

// writer notes the status of a response, and gives each write a deadline: a client that does not read causes an error,
// which ends its generation.
type writer struct {
	http.ResponseWriter
	timeout time.Duration
	status  int // 0 before the header
	// unread: the request has a body that was not read. The response then ends the connection. net/http would first
	// read the rest, which a client can delay.
	unread bool
}

// Unwrap lets a ResponseController find the writer of the server.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	if w.unread {
		w.Header().Set("Connection", "close")
	}
	w.extend()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.extend()
	return w.ResponseWriter.Write(p)
}

// extend moves the deadline of writing.
func (w *writer) extend() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.timeout)) // a recorder of tests has no deadlines
}

// errLeft reports that the client takes no more of its answer.
var errLeft = errors.New("the client has left")

// stream sends the chunks of an answer. Several goroutines may use it.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	events  bool // server-sent events; otherwise a JSON value on each line

	mu      sync.Mutex // guards the fields below
	started bool
	failed  error     // of a write; nothing is written behind it
	last    time.Time // of the last chunk; at first, of the request
	buffer  bytes.Buffer
}

func newStream(w http.ResponseWriter, events bool) *stream {
	return &stream{w: w, control: http.NewResponseController(w), events: events, last: time.Now()}
}

// named is a value whose event has a name.
type named interface{ eventName() string }

// send sends one value.
func (t *stream) send(v any) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buffer.Reset()
	if v, ok := v.(named); ok {
		t.buffer.WriteString("event: " + v.eventName() + "\n")
	}
	if t.events {
		t.buffer.WriteString("data: ")
	}
	if err := encode(&t.buffer, v); err != nil {
		return err
	}
	if t.events {
		t.buffer.WriteByte('\n')
	}
	return t.write()
}

// end sends the mark behind the last event.
func (t *stream) end() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buffer.Reset()
	t.buffer.WriteString("data: [DONE]\n\n")
	return t.write()
}

// write sends the buffer. The caller holds t.mu.
func (t *stream) write() error {
	if t.failed != nil {
		return t.failed
	}
	if !t.started {
		t.started = true
		h := t.w.Header()
		h.Set("Content-Type", "application/x-ndjson")
		if t.events {
			h.Set("Content-Type", "text/event-stream")
		}
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // proxies pass each chunk on
	}
	t.last = time.Now()
	_, err := t.w.Write(t.buffer.Bytes())
	if err == nil {
		err = t.control.Flush()
	}
	if err != nil {
		t.failed = fmt.Errorf("%w: %w", errLeft, err)
	}
	return t.failed
}

// quietTime is how long a stream may be silent while a prompt is read. Clients give up a connection that is silent for
// minutes, which a long prompt can take.
const quietTime = 15 * time.Second

// quiet reports whether the stream has been silent for so long that something must be sent.
func (t *stream) quiet() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.last) >= quietTime
}

// comment sends what clients of server-sent events ignore.
func (t *stream) comment(text string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buffer.Reset()
	t.buffer.WriteString(": " + text + "\n\n")
	return t.write()
}

// reading tells the client of a stream of events, from time to time, how much of its prompt has been read. If the client has left,
// its request ends by its context.
func (t *stream) reading(done, total int) {
	if t.quiet() {
		_ = t.comment(fmt.Sprintf("prompt: %d of %d tokens", done, total))
	}
}
