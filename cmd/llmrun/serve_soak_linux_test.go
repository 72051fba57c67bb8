package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// soakVariable is the environment variable with the time that the load lasts; make soak sets 30 minutes.
const soakVariable = "LLMRUN_TEST_SOAK"

// soakBudget is the memory limit, with which 60 % of the bundled model's weights stay in memory and the others are streamed.
const soakBudget = 72 << 20

// soakPrompts are asked for with several seeds.
var soakPrompts = []string{"Tell me a story about a fox.", "Hi", "What is in the wood?"}

// soak is a server under load.
type soak struct {
	*served
	client *http.Client
	want   map[string]string // the answer to each sound request, when it is asked alone
	counts [soakKinds]atomic.Int64
	busy   atomic.Int64 // sound requests that found the queue full
	pause  func(time.Duration)
	now    func() time.Time
}

// soakKinds is the number of soakActions.
const soakKinds = 7

// soakActions are what clients of the load do.
var soakActions = [soakKinds]func(*soak, *rand.Rand) error{
	(*soak).ask, (*soak).ask, (*soak).cancel, (*soak).malformed, (*soak).oversized, (*soak).slowWriter, (*soak).slowReader,
}

// TestMeasuredServeSoak loads a server with a budget for a while: sound requests of several APIs, and those that are cancelled, malformed,
// oversized, or slow, all at the same time. Each sound answer is the one that its seed gives alone, memory stays within the budget,
// and afterwards no goroutine and no file are left.
func TestMeasuredServeSoak(t *testing.T) {
	testutil.Measured(t)
	lasts := 60 * time.Second
	if text := os.Getenv(soakVariable); text != "" {
		var err error
		lasts, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	s := &soak{
		served: startServeOf(t, builtCommand(t), "--cache-dir", t.TempDir(), "--ram", strconv.Itoa(soakBudget)),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}, want: map[string]string{},
		pause: time.Sleep, now: time.Now,
	}
	for _, body := range s.requests() {
		text, status, err := s.answer(body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, text)
		s.want[body.key()] = text
	}
	s.client.CloseIdleConnections()
	s.load(lasts / 4) // what the server opens once it is needed is there then
	s.client.CloseIdleConnections()
	before := s.settled()

	s.load(lasts)
	for i := range s.counts {
		require.Positive(t, s.counts[i].Load(), "action %d", i)
	}
	s.client.CloseIdleConnections()
	const few = 5 // a reader or a file may be needed later still; what requests leave comes in hundreds
	var after leftovers
	if !testutil.HoldsWithin(time.Minute, func() bool {
		after = s.settled()
		return after.goroutines <= before.goroutines+few && after.files <= before.files+few
	}) {
		_ = s.command.Process.Signal(syscall.SIGQUIT) // the log then has the goroutines
		_ = s.command.Wait()
		t.Fatalf("%+v before the load, and %+v behind it\n%s", before, after, s.log.String())
	}
	peak := s.peak()
	t.Logf("%v of load: actions %v, %d times busy, peak of memory %d MiB of %d MiB, %+v before and %+v after", lasts, countsOf(&s.counts), s.busy.Load(), peak>>20, soakBudget>>20, before, s.settled())
	require.LessOrEqual(t, peak, int64(soakBudget))
	s.stop(syscall.SIGTERM)
	require.NotContains(t, s.log.String(), "panic")
}

// load lets clients do what they do, for a while.
func (s *soak) load(lasts time.Duration) {
	var clients sync.WaitGroup
	failures := make(chan error, 100)
	end := s.now().Add(lasts)
	for i := range 8 {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		clients.Go(func() {
			for s.now().Before(end) {
				action := r.IntN(len(soakActions))
				if err := soakActions[action](s, r); err != nil {
					select {
					case failures <- fmt.Errorf("action %d: %w", action, err):
					default:
					}
				}
				s.counts[action].Add(1)
			}
		})
	}
	clients.Wait()
	close(failures)
	for err := range failures {
		s.t.Error(err)
	}
}

func countsOf(counts *[soakKinds]atomic.Int64) (all []int64) {
	for i := range counts {
		all = append(all, counts[i].Load())
	}
	return all
}

// soakRequest is a sound request.
type soakRequest struct {
	prompt string
	seed   int
}

func (r soakRequest) key() string { return fmt.Sprint(r.seed, r.prompt) }

func (s *soak) requests() (all []soakRequest) {
	for seed := range 4 {
		for _, prompt := range soakPrompts {
			all = append(all, soakRequest{prompt, seed})
		}
	}
	return all
}

// answer asks and returns the text of the answer.
func (s *soak) answer(r soakRequest) (text string, status int, err error) {
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"seed":%d,"temperature":1,"max_tokens":24}`, r.prompt, r.seed)
	response, err := s.client.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return string(data), response.StatusCode, err
	}
	var got struct {
		Choices []struct{ Message struct{ Content string } }
	}
	err = json.Unmarshal(data, &got)
	return got.Choices[0].Message.Content, response.StatusCode, err
}

// ask sends a sound request and compares the answer.
func (s *soak) ask(r *rand.Rand) error {
	all := s.requests()
	request := all[r.IntN(len(all))]
	text, status, err := s.answer(request)
	switch {
	case err != nil:
		return err
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		s.busy.Add(1)
		return nil
	case status != http.StatusOK:
		return fmt.Errorf("status %d: %s", status, text)
	case text != s.want[request.key()]:
		return fmt.Errorf("seed %d of %q: %q alone, %q under load", request.seed, request.prompt, s.want[request.key()], text)
	}
	return nil
}

const soakStream = `{"messages":[{"role":"user","content":"Tell me a long story about a fox."}],"temperature":1,"max_tokens":400,"stream":true}`

// cancel leaves in the middle of an answer, or before it.
func (s *soak) cancel(r *rand.Rand) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(400))*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(soakStream))
	if err != nil {
		return err
	}
	if response, err := s.client.Do(request); err == nil {
		_, _ = io.CopyN(io.Discard, response.Body, int64(r.IntN(2000)))
		response.Body.Close()
	}
	return nil
}

// malformed sends what no request may look like.
func (s *soak) malformed(r *rand.Rand) error {
	bodies := []string{`{"messages":`, `[]`, "{\"prompt\":\"\xff\"}", `{"a":1,"a":2}`, strings.Repeat(`{"a":`, 100), `{"model":7}`, ``}
	paths := []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/api/chat", "/api/generate", "/api/show"}
	return s.refused(paths[r.IntN(len(paths))], strings.NewReader(bodies[r.IntN(len(bodies))]), http.StatusBadRequest)
}

// oversized sends more than a body may have.
func (s *soak) oversized(*rand.Rand) error {
	return s.refused("/v1/completions", bytes.NewReader(make([]byte, 5<<20)), http.StatusRequestEntityTooLarge)
}

// refused sends a body that must be refused with a status.
func (s *soak) refused(path string, body io.Reader, want int) error {
	response, err := s.client.Post(s.url+path, "application/json", body)
	if err != nil { // the server does not read what it refuses
		if want == http.StatusRequestEntityTooLarge {
			return nil
		}
		return err
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	switch response.StatusCode {
	case want, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return nil
	}
	return fmt.Errorf("status %d instead of %d: %s", response.StatusCode, want, text)
}

// dial opens a connection and sends the head of a request with a length, and a part of its body.
func (s *soak) dial(length int, part string) (net.Conn, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err == nil {
		_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", length, part)
	}
	return conn, err
}

// slowWriter sends a body byte by byte, and gives up.
func (s *soak) slowWriter(r *rand.Rand) error {
	conn, err := s.dial(len(soakStream), soakStream[:10])
	if err != nil {
		return err
	}
	defer conn.Close()
	for i := range r.IntN(20) {
		s.pause(20 * time.Millisecond)
		if _, err := conn.Write([]byte(soakStream[10+i : 11+i])); err != nil {
			return nil //nolint:nilerr // the server may have refused it
		}
	}
	return nil
}

// slowReader takes a few bytes of an answer, and then nothing for a while.
func (s *soak) slowReader(r *rand.Rand) error {
	conn, err := s.dial(len(soakStream), soakStream)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(s.now().Add(time.Second))
	_, _ = conn.Read(make([]byte, 64)) // it may wait for its turn
	s.pause(time.Duration(r.IntN(1000)) * time.Millisecond)
	return nil
}

// leftovers are what a server holds without requests.
type leftovers struct{ goroutines, files int }

var goroutinesMetric = regexp.MustCompile(`(?m)^llmrun_goroutines (\d+)$`)

// settled returns what the server holds.
func (s *soak) settled() (l leftovers) {
	s.t.Helper()
	response, err := http.Get(s.url + "/metrics")
	require.NoError(s.t, err)
	data, err := io.ReadAll(response.Body)
	response.Body.Close()
	require.NoError(s.t, err)
	found := goroutinesMetric.FindSubmatch(data)
	require.NotNil(s.t, found, "%s", data)
	l.goroutines, _ = strconv.Atoi(string(found[1]))
	files, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(s.command.Process.Pid), "fd"))
	require.NoError(s.t, err)
	l.files = len(files)
	return l
}

// peak returns the most memory that the server has had.
func (s *soak) peak() int64 {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.command.Process.Pid), "status"))
	require.NoError(s.t, err)
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(data)
	require.NotNil(s.t, found)
	kilobytes, err := strconv.ParseInt(string(found[1]), 10, 64)
	require.NoError(s.t, err)
	return kilobytes << 10
}
