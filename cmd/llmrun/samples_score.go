package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/llmrun/llmrun"
)

// parseVote returns the function that finds the answer in a text.
func parseVote(s string) (func(text string) (string, bool), error) {
	if s == "" {
		return func(text string) (string, bool) { return oneLine(text), true }, nil
	}
	if field, ok := strings.CutPrefix(s, "json:"); ok {
		if field == "" {
			return nil, errors.New(`must name a field, as in json:answer, not "json:"`)
		}
		return func(text string) (string, bool) { return jsonField(text, strings.Split(field, ".")) }, nil
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, fmt.Errorf("must be a regular expression or json:FIELD, not %q: %s", s, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return func(text string) (string, bool) { return lastMatch(re, text) }, nil
}

// lastMatch returns the first group of the last match, or the match of an expression without groups. Matches without
// any text do not count.
func lastMatch(re *regexp.Regexp, text string) (answer string, ok bool) {
	for _, match := range re.FindAllStringSubmatch(text, -1) {
		if found := oneLine(match[min(1, len(match)-1)]); found != "" {
			answer, ok = found, true
		}
	}
	return answer, ok
}

// jsonField returns a field of the first JSON object in a text. Names of nested fields have dots between them. Equal numbers are the same answer,
// however they are written, and keep their digits.
func jsonField(text string, path []string) (string, bool) {
	value := firstObject(text)
	for _, name := range path {
		object, _ := value.(map[string]any)
		found, ok := object[name]
		if !ok {
			return "", false
		}
		value = found
	}
	switch v := value.(type) {
	case string:
		return oneLine(v), true
	case json.Number:
		return sameNumber(v), true
	}
	encoded, err := json.Marshal(value)
	return string(encoded), err == nil
}

// firstObject returns the first JSON object in a text, nil if there is none. Other braces may be before it.
func firstObject(text string) any {
	const most = 100 // braces, behind each of which all of the text may be read
	for range most {
		begin := strings.IndexByte(text, '{')
		if begin < 0 {
			break
		}
		var value any
		text = text[begin:]
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		if decoder.Decode(&value) == nil {
			return value
		}
		text = text[1:]
	}
	return nil
}

// sameNumber returns one spelling for all of a number, unless a float64 would change it.
func sameNumber(n json.Number) string {
	x, err := n.Float64()
	if err != nil || math.Abs(x) >= 1<<53 {
		return n.String()
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// scorer runs a command for each answer, or asks a reward model. A nil scorer leaves the library's score.
type scorer struct {
	command, reward string
	patience        time.Duration // that the command has for an answer
	quiet           time.Duration // of it, until note says that the command still runs
	note            func(text string)
}

func parseScorer(s string) (*scorer, error) {
	command, isCommand := strings.CutPrefix(s, "command:")
	model, isModel := strings.CutPrefix(s, "reward:")
	switch {
	case isModel && model != "":
		return &scorer{reward: model}, nil
	case s == "logprob":
		return nil, nil
	case isCommand && strings.TrimSpace(command) != "":
		return &scorer{command: command, patience: 10 * time.Minute, quiet: 10 * time.Second}, nil
	}
	return nil, fmt.Errorf("must be logprob, command:CMD or reward:MODEL, not %q", s)
}

// name says what the score is.
func (c *scorer) name() string {
	switch {
	case c == nil:
		return "mean log-probability"
	case c.reward != "":
		return "score of the reward model"
	}
	return "score of the command"
}

// Exit codes of the shell for a command that cannot be run or found.
const (
	notRunnable = 126
	notFound    = 127
)

// score runs the command with the answer as its standard input. An answer for which it does not end loses against all others: what tests
// a program that a model has written may run as long as that does.
func (c *scorer) score(ctx context.Context, k *llmrun.Candidate) (float64, error) {
	limited, stop := context.WithTimeout(ctx, c.patience)
	defer stop()
	run := exec.CommandContext(limited, "sh", "-c", c.command)
	if runtime.GOOS == "windows" {
		run = exec.CommandContext(limited, "cmd", "/C", c.command)
	}
	cancelChildren(run)
	var late atomic.Bool
	kill := run.Cancel
	run.Cancel = func() error {
		err := kill()
		late.Store(err == nil)
		return err
	}
	out, complaint := firstBytes{end: true}, firstBytes{}
	run.Stdin, run.Stdout, run.Stderr = strings.NewReader(k.Text), &out, &complaint
	run.WaitDelay = time.Second // for children of the command that go on
	err := c.await(run)
	status := run.ProcessState.ExitCode()
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case late.Load() || errors.Is(err, context.DeadlineExceeded): // or before it was started
		c.note(fmt.Sprintf("--best-of: the command did not end within %s for answer %d, which loses against the others", c.patience, k.Index+1))
		return -math.MaxFloat32, nil
	case run.ProcessState == nil, status == notRunnable, status == notFound:
		return 0, fmt.Errorf("--best-of: the command %q could not be run: %w %s", c.command, err, oneLine(complaint.String()))
	}
	printed := strings.TrimSpace(out.String())
	switch {
	case printed == "" && status == 0:
		return 1, nil
	case printed == "":
		return 0, nil
	}
	score, err := strconv.ParseFloat(printed, 64)
	if err != nil || math.IsNaN(score) || math.IsInf(score, 0) {
		return 0, fmt.Errorf("--best-of: the command %q printed %.100q instead of a number", c.command, printed)
	}
	return score, nil
}

// await runs the command, and says if it takes long.
func (c *scorer) await(run *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- run.Run() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(c.quiet):
	}
	c.note(fmt.Sprintf("--best-of: the command still runs; it has %s for an answer", c.patience))
	c.quiet = c.patience // said once
	return <-ended
}

// firstBytes is a writer that keeps the first bytes of an output, and drops the others or ends the output.
type firstBytes struct {
	kept []byte
	end  bool
}

// Write implements io.Writer.
func (f *firstBytes) Write(b []byte) (int, error) {
	const most = 4096
	n := min(len(b), most-len(f.kept))
	f.kept = append(f.kept, b[:n]...)
	if f.end && n < len(b) {
		return n, io.ErrShortWrite
	}
	return len(b), nil
}

// String returns what is kept.
func (f *firstBytes) String() string { return string(f.kept) }
