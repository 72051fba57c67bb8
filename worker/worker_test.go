package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// asProgram makes the test binary the program, so that tests have real processes to kill.
const asProgram = "LLMWORKER_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// llmworker returns a command line of llmworker.
func llmworker(args ...string) *exec.Cmd {
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), asProgram+"=1")
	return command
}

// modelPath returns the bundled model.
func modelPath(t *testing.T) string {
	path, err := filepath.Abs(filepath.Join("..", "cmd", "llmrun", "bundled", "model.pack"))
	require.NoError(t, err)
	return path
}

// startServer starts a NATS server that writes everything before it says so, and returns its URL.
func startServer(t *testing.T) string {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), SyncAlways: true, WriteDeadline: time.Hour, NoLog: true, NoSigs: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	testutil.Eventually(t, "the server is ready", func() bool { return s.ReadyForConnections(10 * time.Millisecond) })
	return s.ClientURL()
}

// connect returns the queue of a server.
func connect(t *testing.T, url string) *queue {
	q, err := openQueue(context.Background(), url, 2*time.Second)
	require.NoError(t, err)
	t.Cleanup(q.close)
	return q
}

// newWorker returns a worker of this process.
func newWorker(t *testing.T, q *queue) *worker {
	engine, err := llmrun.Open(modelPath(t), llmrun.Options{Threads: 1, Cache: llmrun.CacheOptions{Dir: t.TempDir()}})
	require.NoError(t, err)
	w := &worker{queue: q, engine: engine, dir: t.TempDir(), lostAfter: 2 * time.Second, note: func(text string) { t.Log(text) }}
	t.Cleanup(func() {
		require.NoError(t, w.close())
		require.NoError(t, engine.Close())
	})
	return w
}

// text returns paragraphs of simple sentences.
func text(r *rand.Rand, sentences int) string {
	pick := func(words string) string {
		all := strings.Fields(words)
		return all[r.IntN(len(all))]
	}
	var b strings.Builder
	for i := range sentences {
		fmt.Fprintf(&b, "%s has the %s %s in %s. ", pick("Kate Max Nora Omar Ruby"), pick("old small green paper"), pick("boat letter bridge garden"), pick("Rome Lima Oslo Bergen"))
		if i%4 == 3 {
			b.WriteString("\n\n")
		}
	}
	return b.String()
}

// small are the options of the tests' jobs: short parts and answers.
var small = job{PartTokens: 64, Words: 20}

// add submits a document to summarize.
func add(t *testing.T, q *queue, name, content string) (id string) {
	return addJob(t, q, small, name, content)
}

// addJob submits a document.
func addJob(t *testing.T, q *queue, j job, name, content string) (id string) {
	j.Document = name
	id, err := q.submit(context.Background(), j, llmrun.TextDocument(name, content))
	require.NoError(t, err)
	return id
}

// alone returns the summary that one machine makes.
func alone(t *testing.T, w *worker, j job, name, content string) *llmrun.Summary {
	s, err := w.engine.Summarize(context.Background(), llmrun.TextDocument(name, content), j.options(llmrun.Sampling{}))
	require.NoError(t, err)
	return s
}

// requireSame expects the summary of one machine as the result of a job.
func requireSame(t *testing.T, q *queue, id string, want *llmrun.Summary) {
	var got result
	testutil.Eventually(t, "the server has stored the result", func() bool {
		var done bool
		var err error
		got, done, err = q.result(context.Background(), id)
		require.NoError(t, err)
		return done
	})
	require.Empty(t, got.Error)
	require.Equal(t, want.Text, got.Text)
	require.Equal(t, want.Parts, got.Parts)
	require.Equal(t, want.Computed+want.ComputedMerges, got.Reused+got.ReusedMerges)
}

// requireNoWork expects an empty queue.
func requireNoWork(t *testing.T, q *queue) {
	testutil.Eventually(t, "there is no work left", func() bool { return q.idle(context.Background()) })
}

// traffic is what a server has handled, and what of it was progress.
type traffic struct {
	messages atomic.Int64
	answers  atomic.Int64 // to different steps
	results  atomic.Int64 // of different documents
}

// observe counts the messages of a server from now on.
func observe(t *testing.T, q *queue) *traffic {
	c := &traffic{}
	answers, results := map[string]bool{}, map[string]bool{} // each may be stored a second time
	all, err := q.conn.Subscribe(">", func(msg *nats.Msg) {
		if strings.HasPrefix(msg.Subject, "$KV."+answerBucket+".") {
			answers[msg.Subject] = true
			c.answers.Store(int64(len(answers)))
		} else if strings.HasPrefix(msg.Subject, "$O.llmrun_results.M.") { // the end of a result
			results[msg.Subject] = true
			c.results.Store(int64(len(results)))
		}
		c.messages.Add(1)
	})
	require.NoError(t, err)
	require.NoError(t, all.SetPendingLimits(-1, -1)) // a message that is dropped would be missed for ever
	require.NoError(t, q.conn.Flush())
	return c
}

// maxVainMessages is how many messages without any progress are a standstill. Workers without work exchange a few each
// second, which look at documents a hundred, and all of them fewer on a machine under load, as they get on with fewer steps.
const maxVainMessages = 50_000

// wait waits until a condition holds. It gives up when workers exchange many messages without any progress, or none at
// all, or when check fails; how long a step takes does not matter.
func (c *traffic) wait(t *testing.T, what string, check func(), condition func() bool) {
	progress := func() int64 { return c.answers.Load() + c.results.Load() }
	seen, at := progress(), c.messages.Load()
	for last := at; !condition(); last = c.messages.Load() {
		testutil.Eventually(t, "the workers exchange messages with the server, until "+what, func() bool {
			check()
			return c.messages.Load() > last || condition()
		})
		if n := progress(); n > seen {
			seen, at = n, c.messages.Load()
		}
		require.Less(t, c.messages.Load()-at, int64(maxVainMessages), "messages without an answer or a result, waiting until %s", what)
	}
}

// TestKilledWorkersGiveBackTheirParts kills three workers with SIGKILL in turn, each after a random number of messages
// that the server has handled, and starts them again, until all documents are done: each summary is that of one machine.
// LLMRUN_TEST_SWEEP takes 40 documents.
func TestKilledWorkersGiveBackTheirParts(t *testing.T) {
	r := testutil.Random(t)
	url := startServer(t)
	q := connect(t, url)
	single := newWorker(t, q)
	want := map[string]*llmrun.Summary{}
	for i := range testutil.Effort(4, 40) {
		name, content := fmt.Sprintf("doc%d.md", i), text(r, 8+r.IntN(12))
		want[add(t, q, name, content)] = alone(t, single, small, name, content)
	}
	seen := observe(t, q)
	var outputs [3]bytes.Buffer
	var running [3]*exec.Cmd
	var ended [3]chan error
	start := func(i int) {
		running[i] = llmworker("work", "-m", modelPath(t), "--nats", url, "--lost-after", "2", "--threads", "1", "--cache-dir", t.TempDir())
		running[i].Env = append(running[i].Env, "TMPDIR="+t.TempDir())
		running[i].Stderr = &outputs[i]
		require.NoError(t, running[i].Start())
		ended[i] = make(chan error, 1)
		go func(worker *exec.Cmd, ended chan<- error) { ended <- worker.Wait() }(running[i], ended[i])
	}
	kill := func(i int) {
		_ = running[i].Process.Kill() // it may have ended
		<-ended[i]
	}
	alive := func() {
		for i := range ended {
			select {
			case err := <-ended[i]:
				ended[i] <- err
				t.Fatalf("worker %d ended by itself: %v", i, err)
			default:
			}
		}
	}
	for i := range running {
		start(i)
	}
	defer func() {
		for i := range running {
			kill(i)
		}
		if t.Failed() {
			for i := range outputs {
				t.Log(outputs[i].String())
			}
		}
	}()
	done := func() bool { return seen.results.Load() == int64(len(want)) }
	kills := 0
	for ; !done() && kills < testutil.Effort(9, 1000); kills++ {
		until := seen.messages.Load() + int64(5+r.IntN(120))
		seen.wait(t, "it is time to kill one", alive, func() bool { return seen.messages.Load() >= until || done() })
		kill(kills % len(running))
		start(kills % len(running))
	}
	seen.wait(t, "all documents are done", alive, done)
	for id := range want {
		requireSame(t, q, id, want[id])
	}
	requireNoWork(t, q)
	require.GreaterOrEqual(t, kills, 3)
	t.Logf("%d documents, %d kills", len(want), kills)
}

// checkedMessage expects what came of work to be stored when it is acknowledged.
type checkedMessage struct {
	jetstream.Msg
	check func()
}

func (m checkedMessage) DoubleAck(ctx context.Context) error {
	m.check()
	return m.Msg.DoubleAck(ctx)
}

// TestAcknowledgedWorkIsStored takes messages one by one, and expects the server to have the answer to a step, and the
// result of a document, before the message is acknowledged. Every second step is done twice, as after the death of a
// worker between both: the second time nothing is computed.
func TestAcknowledgedWorkIsStored(t *testing.T) {
	ctx, url := context.Background(), startServer(t)
	q, observer := connect(t, url), connect(t, url)
	w := newWorker(t, q)
	content := text(testutil.Random(t), 14)
	id := add(t, q, "doc.md", content)
	require.Equal(t, id, add(t, q, "doc.md", content), "the same document is a job of its own")
	acknowledged := map[string]int{}
	for done := false; !done; {
		msg, err := q.take()
		require.NoError(t, err)
		if msg != nil {
			checked := checkedMessage{Msg: msg, check: func() {
				if key, isStep := strings.CutPrefix(msg.Subject(), stepSubject+"."+id+"."); isStep {
					_, stored, err := observer.answer(ctx, key)
					require.NoError(t, err)
					require.True(t, stored, "a step is acknowledged whose answer is not stored")
				} else {
					_, stored, err := observer.result(ctx, id)
					require.NoError(t, err)
					require.True(t, stored, "a document is acknowledged whose result is not stored")
					done = true
				}
				require.Zero(t, acknowledged[msg.Subject()])
				acknowledged[msg.Subject()]++
			}}
			if strings.HasPrefix(msg.Subject(), stepSubject) && len(acknowledged)%2 == 1 {
				w.alive = func() {}
				_, err := w.do(ctx, msg) // and the worker dies
				require.NoError(t, err)
				engine := w.engine
				w.engine = nil // a second computation would panic
				require.NoError(t, w.handle(ctx, checked))
				w.engine = engine
				continue
			}
			require.NoError(t, w.handle(ctx, checked))
		}
	}
	want := alone(t, w, small, "doc.md", content)
	requireSame(t, q, id, want)
	requireNoWork(t, q)
	require.Len(t, acknowledged, 1+want.Computed+want.ComputedMerges)
	require.Equal(t, id, add(t, q, "doc.md", content))
	requireNoWork(t, q) // a finished document is not added again
}

// dueMessage is work that is due again at once when it is put back.
type dueMessage struct{ jetstream.Msg }

func (m dueMessage) NakWithDelay(time.Duration) error { return m.Nak() }

// TestStepsComeBeforePlans works where the plans of all documents are due again whenever a worker looks for work, as on
// a machine that takes longer for plans than they are put back for: steps are computed nevertheless.
func TestStepsComeBeforePlans(t *testing.T) {
	ctx := context.Background()
	q := connect(t, startServer(t))
	w := newWorker(t, q)
	r := testutil.Random(t)
	want := map[string]*llmrun.Summary{}
	for i := range 3 {
		name, content := fmt.Sprintf("doc%d.md", i), text(r, 10)
		want[add(t, q, name, content)] = alone(t, w, small, name, content)
	}
	steps, plans, vain := 0, 0, 0 // vain plans follow each other
	for !q.idle(ctx) {
		msg, err := q.take()
		require.NoError(t, err)
		if msg == nil {
			continue
		}
		if strings.HasPrefix(msg.Subject(), stepSubject) {
			steps, vain = steps+1, 0
		} else {
			plans, vain = plans+1, vain+1
		}
		require.NoError(t, w.handle(ctx, dueMessage{msg}))
		require.LessOrEqual(t, vain, len(want)+1, "plans of documents leave no time for steps")
	}
	for id := range want {
		requireSame(t, q, id, want[id])
	}
	t.Logf("%d steps, %d plans", steps, plans)
}

// finish does all work.
func finish(t *testing.T, w *worker) {
	ctx := context.Background()
	for !w.queue.idle(ctx) {
		msg, err := w.queue.take()
		require.NoError(t, err)
		if msg != nil {
			require.NoError(t, w.handle(ctx, msg))
		}
	}
}

// TestFieldsAreExtracted expects the fields of one machine, in the result and in the file that llmworker results writes.
// A schema whose shortest answer has no room beside a part gives an error as the result.
func TestFieldsAreExtracted(t *testing.T) {
	url := startServer(t)
	q := connect(t, url)
	w := newWorker(t, q)
	j := job{PartTokens: 256, Schema: `{"properties":{"names":{"type":"array","items":{"enum":["Kate","Max","Nora"]},"maxItems":2}},"required":["names"],"additionalProperties":false}`}
	content := text(testutil.Random(t), 60)
	id := addJob(t, q, j, "doc.md", content)
	long := job{PartTokens: 64, Schema: fmt.Sprintf(`{"const":%q}`, strings.Repeat("green paper ", 200))}
	bad := addJob(t, q, long, "bad.md", content)
	finish(t, w)
	want := alone(t, w, j, "doc.md", content)
	require.Greater(t, len(want.Parts), 1)
	requireSame(t, q, id, want)
	got, _, err := q.result(context.Background(), id)
	require.NoError(t, err)
	require.JSONEq(t, want.Text, string(got.Fields))
	got, _, err = q.result(context.Background(), bad)
	require.NoError(t, err)
	require.Contains(t, got.Error, "raise PartTokens")

	dir := t.TempDir()
	out, err := llmworker("results", "--nats", url, "-o", dir).Output()
	require.Error(t, err, "a document failed")
	require.Equal(t, filepath.Join(dir, "doc.md."+id+".fields.json"), strings.TrimSpace(string(out)))
	fields, err := os.ReadFile(filepath.Join(dir, "doc.md."+id+".fields.json"))
	require.NoError(t, err)
	require.Equal(t, want.Text+"\n", string(fields))
}

// TestSchemasAreChecked expects submit to refuse what no worker could do, before it needs a server.
func TestSchemasAreChecked(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	good := file("good.json", "{}")
	for want, args := range map[string][]string{
		"have no meaning with --schema": {"--schema", good, "--cite"},
		"not.json: ":                    {"--schema", file("not.json", `{"properties":{"a":{"not":{}}}}`)},
		"empty.json is empty":           {"--schema", file("empty.json", "")},
		"large.json has more than":      {"--schema", file("large.json", strings.Repeat(" ", maxSchema+1))},
		"no such file":                  {"--schema", filepath.Join(dir, "missing.json")},
	} {
		command := llmworker(append([]string{"submit", "--nats", "nats://127.0.0.1:1", "doc.md"}, args...)...)
		out, err := command.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), want)
	}
}

// TestBadDocumentsAreReported expects an error in place of a result for a document without text, and none for one that
// another model computes.
func TestBadDocumentsAreReported(t *testing.T) {
	ctx := context.Background()
	q := connect(t, startServer(t))
	w := newWorker(t, q)
	w.alive = func() {}
	id := add(t, q, "empty.md", " \n")
	delay, err := w.plan(ctx, id)
	require.NoError(t, err)
	require.Zero(t, delay)
	r, done, err := q.result(ctx, id)
	require.NoError(t, err)
	require.True(t, done)
	require.Contains(t, r.Error, "empty.md has no text")

	id = add(t, q, "other.md", "The fox is called Ruby.")
	j, revision, err := q.job(ctx, id)
	require.NoError(t, err)
	j.Identity = "another"
	_, err = q.claim(ctx, id, j, revision)
	require.NoError(t, err)
	_, err = w.plan(ctx, id)
	require.ErrorIs(t, err, errOtherModel)
	_, done, err = q.result(ctx, id)
	require.NoError(t, err)
	require.False(t, done)

	j.Identity = "a third" // too late: the revision is that of before
	j, err = q.claim(ctx, id, j, revision)
	require.NoError(t, err)
	require.Equal(t, "another", j.Identity)

	step := llmrun.SummaryStep{Key: strings.Repeat("0", 32), Prompt: "Say hello.", Tokens: 5}
	id = add(t, q, "third.md", "The fox is called Ruby.")
	require.ErrorContains(t, w.compute(ctx, id, &step), "belongs to another model, or to other options")
}

// guideCommand is a line of the guide that runs llmworker.
var guideCommand = regexp.MustCompile(`(?m)^    (llmworker .*)$`)

// TestGuideCommands runs the commands of the guide in their order.
func TestGuideCommands(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "guide", "overnight.md"))
	require.NoError(t, err)
	lines := guideCommand.FindAllStringSubmatch(string(page), -1)
	require.Len(t, lines, 3)
	url, dir := startServer(t), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "books"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "books", "fox.md"), []byte("The fox is called Ruby. She lives near the lake."), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "books", "scan.pdf"), []byte("%PDF-1.4"), 0o600))
	require.NoError(t, os.Symlink(modelPath(t), filepath.Join(dir, "model.gguf")))
	var out []byte
	for _, line := range lines {
		command := llmworker(strings.Fields(strings.ReplaceAll(line[1], "nats://server:4222", url))[1:]...)
		command.Dir = dir
		command.Env = append(command.Env, "HOME="+dir, "XDG_CACHE_HOME="+dir)
		var errs bytes.Buffer
		command.Stderr = &errs
		out, err = command.Output()
		require.NoError(t, err, "%s\n%s", line[1], &errs)
		if strings.Contains(line[1], " submit ") {
			require.Contains(t, errs.String(), "scan.pdf: this is a PDF file")
		}
	}
	summary, err := os.ReadFile(filepath.Join(dir, strings.TrimSpace(string(out))))
	require.NoError(t, err)
	require.NotEmpty(t, bytes.TrimSpace(summary))
}
