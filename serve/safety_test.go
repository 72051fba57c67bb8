package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// pipes is a listener of connections in memory, whose deadlines follow the clock of a bubble.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial returns the client's end of a connection.
func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// serveBubble serves a handler on connections in memory until the test ends.
func serveBubble(t *testing.T, h http.Handler) *pipes {
	t.Helper()
	p := newPipes()
	server := NewHTTPServer(h)
	server.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	go func() { _ = server.Serve(p) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-time.After(time.Second) // of the bubble, in which refused connections end
	})
	return p
}

// answerOf reads what the server sends until it closes the connection or its response ends, and when.
func answerOf(t *testing.T, c net.Conn) (status int, body string) {
	t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, ""
	}
	return r.StatusCode, text(t, r.Body)
}

// TestSlowClients checks that headers and bodies that arrive too slowly end with an error in time, and take no place of
// others.
func TestSlowClients(t *testing.T) {
	for _, c := range []struct {
		name, begin string
		every       time.Duration // between further bytes
		status      int
		within      time.Duration
	}{
		{"headers", "POST /api/chat HTTP/1.1\r\nHost: localhost\r\n", time.Second, 400, 11 * time.Second},
		{"headers that stop", "POST /api/chat HTTP/1.1\r\nHost: local", time.Hour, 0, 11 * time.Second},
		{"nothing", "", time.Hour, 0, 11 * time.Second},
		{"body", "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{", time.Second, 408, 31 * time.Second},
		{"body that stops", "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", time.Hour, 408, 31 * time.Second},
		{"chunks", "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", time.Hour, 408, 31 * time.Second},
		{"body of a refused request", "POST /api/chat HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 100\r\n\r\n{", time.Hour, 403, 31 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := emptyServer(t, nil)
				conn := serveBubble(t, s).dial()
				start := time.Now()
				done := make(chan struct{})
				go func() {
					_, err := io.WriteString(conn, c.begin)
					for err == nil {
						select {
						case <-time.After(c.every):
							_, err = io.WriteString(conn, "x")
						case <-done:
							return
						}
					}
				}()
				defer close(done)
				status, _ := answerOf(t, conn)
				require.Equal(t, c.status, status)
				_, err := conn.Read(make([]byte, 1))
				require.Error(t, err, "the connection is closed")
				require.LessOrEqual(t, time.Since(start), c.within)
				require.Zero(t, s.queue.length())
				require.Zero(t, s.bodies.Load())
				conn.Close()
			})
		})
	}
}

// TestStalledReader checks that a client that takes no bytes of its answer ends it within the time for a write, and one that
// takes them slowly does not.
func TestStalledReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		p := serveBubble(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			stream := newStream(&writer{ResponseWriter: w, timeout: 30 * time.Second}, true)
			var err error
			for i := 0; err == nil && i < 100; i++ {
				err = stream.send(map[string]int{"i": i})
			}
			ended <- err
		}))
		stalled := p.dial()
		start := time.Now()
		_, err := io.WriteString(stalled, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		require.ErrorContains(t, <-ended, "timeout")
		require.Equal(t, 30*time.Second, time.Since(start))
		stalled.Close()

		slow := p.dial()
		_, err = io.WriteString(slow, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		var reader sync.WaitGroup
		reader.Go(func() {
			buffer := make([]byte, 4096)
			for {
				if _, err := slow.Read(buffer); err != nil {
					return
				}
				time.Sleep(20 * time.Second)
			}
		})
		require.NoError(t, <-ended)
		require.Greater(t, time.Since(start), 10*time.Minute)
		slow.Close()
		reader.Wait()
	})
}

// TestLongPromptsAreNotSilent checks that a stream whose prompt takes minutes says so from time to time, in a form
// that its clients accept.
func TestLongPromptsAreNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		stream := newStream(w, true)
		for i := range 40 {
			stream.reading(i, 40)
			time.Sleep(time.Second)
		}
		require.Equal(t, ": prompt: 15 of 40 tokens\n\n: prompt: 30 of 40 tokens\n\n", w.Body.String())
		require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	})
}

// TestNothingFollowsAFailedWrite checks that a stream whose client takes nothing is not given an error to take.
func TestNothingFollowsAFailedWrite(t *testing.T) {
	s := emptyServer(t, nil)
	w := &failingWriter{}
	stream := newStream(w, true)
	err := stream.send("text")
	require.ErrorIs(t, err, errLeft)
	record := &record{}
	ctx := context.WithValue(t.Context(), recordKey{}, record)
	require.NoError(t, s.breakOff(ctx, stream, err, openAI{}.errorBody))
	require.Equal(t, 1, w.writes)
	require.Equal(t, statusLeft, record.status)
	require.NoError(t, s.breakOff(ctx, stream, io.ErrUnexpectedEOF, openAI{}.errorBody))
	require.ErrorIs(t, stream.end(), errLeft)
	require.Equal(t, 1, w.writes, "each write would wait for the client again")
}

// failingWriter is a connection that takes nothing.
type failingWriter struct{ writes int }

func (w *failingWriter) Header() http.Header { return http.Header{} }
func (w *failingWriter) WriteHeader(int)     {}
func (w *failingWriter) Write([]byte) (int, error) {
	w.writes++
	return 0, io.ErrClosedPipe
}

// TestBodiesAreBounded checks bodies that are too large, compressed, truncated or not HTTP.
func TestBodiesAreBounded(t *testing.T) {
	large := strings.Repeat("x", 2000)
	for _, c := range []struct {
		name, request string
		status        int
		message       string
	}{
		{"declared", "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1073741824\r\n\r\n", 413, "larger than 1000 bytes"},
		{"one too many", "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n" + large[:1001], 413, "larger than 1000 bytes"},
		{"chunked", "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + large + "\r\n", 413, "larger than 1000 bytes"},
		{"compressed", "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", 415, "compressed"},
		{"nonsense chunks", "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n", 400, ""},
		{"two lengths", "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400, ""},
		{"no host", "POST /api/chat HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 400, ""},
		{"large headers", "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n", 431, ""},
		{"not UTF-8", "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n{\xff}", 400, "not valid UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := emptyServer(t, func(o *Options) { o.MaxBody = 1000 })
				conn := serveBubble(t, s).dial()
				go func() { _, _ = io.WriteString(conn, c.request) }() // fails when the server refuses to read it
				status, body := answerOf(t, conn)
				require.Equal(t, c.status, status)
				require.Contains(t, body, c.message)
				conn.Close()
			})
		})
	}
	t.Run("truncated", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := emptyServer(t, nil)
			conn := serveBubble(t, s).dial()
			_, err := io.WriteString(conn, "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"model\":")
			require.NoError(t, err)
			synctest.Wait()
			conn.Close()
			synctest.Wait()
			require.Zero(t, s.queue.inside)
			require.Zero(t, s.bodies.Load())
		})
	})
}

// TestNothingFollowsABodyInChunks checks that what is behind a body in chunks is no request. With a length besides, a proxy and the server
// can take different parts of the same bytes for the next request.
func TestNothingFollowsABodyInChunks(t *testing.T) {
	const hidden = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for _, length := range []string{"", "Content-Length: 7\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			conn := serveBubble(t, emptyServer(t, nil)).dial()
			go func() {
				_, _ = io.WriteString(conn, "POST /api/show HTTP/1.1\r\nHost: localhost\r\n"+length+"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"+hidden)
			}()
			all := text(t, conn)
			require.Equal(t, 1, strings.Count(all, "HTTP/1.1 "), all)
			require.Contains(t, all, "Connection: close\r\n")
		})
	}
}

// TestBodiesTogetherAreBounded checks that many large bodies do not fit at the same time.
func TestBodiesTogetherAreBounded(t *testing.T) {
	s := emptyServer(t, func(o *Options) { o.MaxBody = 1000 })
	request := func(size int64) *http.Request { return &http.Request{ContentLength: size} }
	var all []func()
	for range bodiesTogether {
		release, err := s.reserveBody(request(-1))
		require.NoError(t, err)
		all = append(all, release)
	}
	_, err := s.reserveBody(request(1))
	require.ErrorIs(t, err, errBusy)
	all[0]()
	release, err := s.reserveBody(request(1))
	require.NoError(t, err)
	for _, release := range append(all[1:], release) {
		release()
	}
	require.Zero(t, s.bodies.Load())
}

// TestBudgetBoundsBodies checks that bodies take a small part of a budget, and the reserved heap covers them.
func TestBudgetBoundsBodies(t *testing.T) {
	for ram, want := range map[int64]int64{-1: 16 << 20, 0: 16 << 20, 1 << 20: 256 << 10, 64 << 20: 512 << 10, 1 << 30: 8 << 20, 1 << 40: 16 << 20} {
		s := emptyServer(t, func(o *Options) { o.RAM = ram })
		require.Equal(t, want, s.bodyRoom, ram)
		require.Equal(t, min(want, 4<<20), s.options.MaxBody, ram)
		require.Equal(t, 4<<20+6*want, s.Heap())
	}
}

// TestConnectionsAreBounded checks that idle connections do not take all memory, and that one that ends makes room.
func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serveBubble(t, emptyServer(t, nil))
		health := func(c net.Conn) int {
			go func() { _, _ = io.WriteString(c, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") }()
			status, _ := answerOf(t, c)
			return status
		}
		var all []net.Conn
		for range maxConnections {
			all = append(all, p.dial())
		}
		synctest.Wait()
		extra := p.dial()
		require.Zero(t, health(extra))
		require.Equal(t, 200, health(all[0]))
		all[1].Close()
		synctest.Wait()
		next := p.dial()
		require.Equal(t, 200, health(next))
		for _, c := range append(all, extra, next) {
			c.Close()
		}
	})
}

// endless asks for an answer that goes on until the context is full: the model may not end it.
func endless(t *testing.T, path string) string {
	t.Helper()
	if path == "/v1/completions" {
		return fmt.Sprintf(`{"prompt":"Once upon a time","stream":true,"max_tokens":30000,"temperature":0,"logit_bias":{%s}}`, endBias(t))
	}
	return fmt.Sprintf(`{%s,"stream":true,"temperature":0,"logit_bias":{%s}}`, foxMessages, endBias(t))
}

// endBias forbids the tokens that end an answer.
func endBias(t testing.TB) string {
	return fmt.Sprintf(`"%d":-100,"%d":-100`, tokenOf(t, "<|im_end|>"), tokenOf(t, "<|endoftext|>"))
}

// TestClientsThatLeave checks that the generation of a client that leaves ends, and that nothing of it is left.
func TestClientsThatLeave(t *testing.T) {
	check := testutil.NoGoroutinesLeft(t)
	s := newDemo(nil)
	web := httptest.NewServer(s)
	for _, path := range []string{"/v1/chat/completions", "/v1/completions"} {
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, web.URL+path, strings.NewReader(endless(t, path)))
		require.NoError(t, err)
		answer, err := web.Client().Do(r)
		require.NoError(t, err)
		_, err = answer.Body.Read(make([]byte, 100))
		require.NoError(t, err)
		require.Equal(t, 1, s.running())
		leave()
		testutil.Eventually(t, "the generation ends", func() bool { return s.running() == 0 })
		answer.Body.Close()
	}
	s.metrics.mu.Lock()
	require.Less(t, s.metrics.generated, int64(25000))
	require.Equal(t, int64(2), s.metrics.requests["499"])
	s.metrics.mu.Unlock()
	web.Client().CloseIdleConnections()
	web.Close()
	require.NoError(t, s.Close())
	check()
}

// running returns the number of requests that generate.
func (s *Server) running() int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return s.queue.running
}

// TestAnswersAreTheSameTogether checks that requests of several clients at a time get the answers that each gets alone, that
// those beyond the queue are refused with a time after which to try again, and that nothing is left afterwards.
func TestAnswersAreTheSameTogether(t *testing.T) {
	check := testutil.NoGoroutinesLeft(t)
	s := newDemo(func(o *Options) { o.Parallel, o.Queue = 3, 4 })
	body := func(seed int) string {
		return fmt.Sprintf(`{%s,"max_tokens":6,"temperature":1.1,"seed":%d}`, foxMessages, seed)
	}
	const clients = 12
	var want [clients]any
	for i := range want {
		want[i] = at(postOK(t, s, "/v1/chat/completions", body(i)), "choices", 0, "message", "content")
	}
	var refused int
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			r := httptest.NewRequest(http.MethodPost, "http://localhost/v1/chat/completions", strings.NewReader(body(i)))
			r.RemoteAddr = fmt.Sprintf("10.0.0.%d:1", i)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			mu.Lock()
			defer mu.Unlock()
			switch w.Code {
			case http.StatusOK:
				require.Contains(t, w.Body.String(), fmt.Sprintf("%q", want[i]))
			default:
				refused++
				require.Equal(t, http.StatusServiceUnavailable, w.Code)
				require.NotEmpty(t, w.Header().Get("Retry-After"))
			}
		})
	}
	group.Wait()
	require.LessOrEqual(t, refused, clients-7, "seven have a place")
	require.Zero(t, s.queue.length())
	require.NoError(t, s.Close())
	check()
}

// TestTooManyOfOneClient checks the status of a client that fills its part of the queue.
func TestTooManyOfOneClient(t *testing.T) {
	s := emptyServer(t, func(o *Options) { o.Parallel, o.Queue = 1, 4 })
	for range 3 {
		_, err := s.queue.admit("192.0.2.1") // the address of httptest's requests
		require.NoError(t, err)
	}
	for path, want := range map[string]string{"/v1/completions": `"type":"rate_limit_error"`, "/api/generate": "too many of your requests"} {
		w := post(s, path, `{"prompt":"x"}`)
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), want)
	}
}

// TestTheQueueIsFull fills the queue by two clients that each leave room in their own part of it: a third one gets a status of the server, and the others,
// too; each API in its form. A request that ends makes room again.
func TestTheQueueIsFull(t *testing.T) {
	s := emptyServer(t, func(o *Options) { o.Parallel, o.Queue = 1, 4 })
	var last *ticket
	for i, client := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.2", "10.0.0.1"} {
		ticket, err := s.queue.admit(client)
		require.NoError(t, err, i)
		last = ticket
	}
	for _, client := range []string{"10.0.0.2:7", "10.0.0.3:7"} {
		for path, want := range map[string]string{
			"/v1/chat/completions": `"type":"server_error"`, "/v1/messages": `"type":"overloaded_error"`, "/v1/embeddings": `"type":"server_error"`,
			"/api/chat": `{"error":"the server is busy: its queue is full"}`,
		} {
			r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(`{}`))
			r.RemoteAddr = client
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			require.Equal(t, http.StatusServiceUnavailable, w.Code, path)
			require.Equal(t, "1", w.Header().Get("Retry-After"))
			require.Contains(t, w.Body.String(), want)
		}
	}
	last.done()
	require.Equal(t, http.StatusBadRequest, post(s, "/v1/chat/completions", `{}`).Code, "there is room")
}

// TestClosing checks that a server that drains refuses requests while an answer goes on, and that Close ends the answer with an
// error in its stream.
func TestClosing(t *testing.T) {
	body := endless(t, "") // it opens the server that tests share
	check := testutil.NoGoroutinesLeft(t)
	s := newDemo(nil)
	web := httptest.NewServer(s)
	answer, err := web.Client().Post(web.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	_, err = answer.Body.Read(make([]byte, 100))
	require.NoError(t, err)
	s.Drain()
	w := post(s, "/v1/completions", `{"prompt":"x"}`)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, 1, s.running())
	require.NoError(t, s.Close())
	rest := text(t, answer.Body)
	require.Contains(t, rest, `data: {"error":{"message":"the server is shutting down"`)
	require.NotContains(t, rest, "[DONE]")
	answer.Body.Close()
	require.NoError(t, s.Close())
	web.Client().CloseIdleConnections()
	web.Close()
	check()
}

// TestLogsHaveNoTexts checks that a log names the request, its numbers and its failure, and no text.
func TestLogsHaveNoTexts(t *testing.T) {
	var log bytes.Buffer
	s := newDemo(func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		o.Models = append(o.Models, Model{Name: "broken", Path: "no such file"})
	})
	postOK(t, s, "/v1/chat/completions?secret=1", `{"model":"demo","messages":[{"role":"user","content":"My secret is a fox."}],"max_tokens":2,"temperature":0}`)
	require.Regexp(t, `level=INFO msg=request method=POST path=/v1/chat/completions status=200 took=\S+ client=192\.0\.2\.1 model=demo prompt_tokens=\d+ cached_tokens=0 generated_tokens=2\n$`, log.String())
	require.NotContains(t, log.String(), "secret")
	require.NotContains(t, log.String(), "fox")
	log.Reset()
	require.Equal(t, http.StatusInternalServerError, post(s, "/v1/completions", `{"model":"broken","prompt":"My secret"}`).Code)
	require.Regexp(t, `level=ERROR .*status=500 .*model=broken .*error=".*no such file`, log.String())
	require.NotContains(t, log.String(), "secret")
	require.NoError(t, s.Close())
}

// TestPromptsAreReused checks that the next turn of a conversation computes only what is new, with the
// same answer as a server that computes all of it.
func TestPromptsAreReused(t *testing.T) {
	s := newDemo(nil)
	ask := func(s *Server, body string) (answer any, cached float64) {
		whole := postOK(t, s, "/v1/chat/completions", body)
		return at(whole, "choices", 0, "message", "content"), at(whole, "usage", "prompt_tokens_details", "cached_tokens").(float64)
	}
	story := strings.Repeat("The fox went into the wood and came back. ", 20)
	first := `{"temperature":0,"max_tokens":4,"messages":[{"role":"user","content":"` + story + `"}]}`
	_, cached := ask(s, first)
	require.Zero(t, cached)
	again, cached := ask(s, first)
	require.Greater(t, cached, 100.0)
	fresh := newDemo(nil)
	want, cached := ask(fresh, first)
	require.Zero(t, cached)
	require.Equal(t, want, again)
	require.NoError(t, errors.Join(s.Close(), fresh.Close()))
}

// TestMetrics checks the format and that the numbers follow what was asked, also after the model is closed.
func TestMetrics(t *testing.T) {
	s := newDemo(nil)
	defer s.Close()
	postOK(t, s, "/api/generate", `{"prompt":"Hi","stream":false,"options":{"num_predict":3,"temperature":0}}`)
	w := ask(s, "GET", "/metrics", nil)
	require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", w.Header().Get("Content-Type"))
	for line := range strings.Lines(w.Body.String()) {
		require.Regexp(t, `^(# (HELP|TYPE) llmrun_\w+ .+|llmrun_\w+(\{\w+="[^"]+"\})? \d+)\n$`, line)
	}
	for _, want := range []string{
		"llmrun_tokens_total{kind=\"prompt\"} 12\n", "llmrun_tokens_total{kind=\"generated\"} 3\n", "llmrun_queue_length 0\n",
		"llmrun_goroutines ", "llmrun_models_open 1\n", "llmrun_requests_total{code=\"200\"} 1\n", "llmrun_ram_bytes{purpose=\"pinned weights\"} ",
		"llmrun_ram_bytes{purpose=\"" + codePurpose + "\"} ",
		"llmrun_flash_read_bytes_total{what=\"weights\"} ", "# TYPE llmrun_passes_total counter\nllmrun_passes_total 3\n", "llmrun_pass_tokens_total 14\n",
	} {
		require.Contains(t, w.Body.String(), want)
	}
	postOK(t, s, "/api/generate", `{"keep_alive":0}`)
	after := ask(s, "GET", "/metrics", nil).Body.String()
	require.Contains(t, after, "llmrun_models_open 0\n")
	require.Contains(t, after, "llmrun_passes_total 3\n")
	require.Contains(t, after, "llmrun_pass_tokens_total 14\n")
	require.NotContains(t, after, "purpose=")
}
