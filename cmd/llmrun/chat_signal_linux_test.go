package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/cmd/llmrun/bundled"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestSignalAfterAnAnswerKeepsIt ends a chat with a signal as soon as its answer is printed, while
// the session is still being saved: the session has the answer.
func TestSignalAfterAnAnswerKeepsIt(t *testing.T) {
	binary, dir := builtCommand(t), t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	question := strings.Repeat("Tom had a red ball. ", 300)
	for number, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		name := fmt.Sprintf("s%d", number)
		chat := exec.Command(binary, "chat", "--session", name, "--cache-dir", dir, "-n", "5", "--temp", "0", "--ctx", "8K")
		chat.Stderr = os.Stderr
		input, err := chat.StdinPipe()
		require.NoError(t, err)
		output, err := chat.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, chat.Start())
		_, err = fmt.Fprintln(input, question)
		require.NoError(t, err)
		answer, err := bufio.NewReader(output).ReadString('\n')
		require.NoError(t, err)
		require.NoError(t, chat.Process.Signal(number))
		var exit *exec.ExitError
		require.ErrorAs(t, chat.Wait(), &exit)
		require.Equal(t, code, exit.ExitCode())
		shown, err := exec.Command(binary, "sessions", "show", name, "--cache-dir", dir).CombinedOutput()
		require.NoError(t, err, "%s", shown)
		require.Contains(t, string(shown), strings.TrimSpace(answer))
	}
}

// gapInput is a terminal on which a signal arrives after the first answer, before the next message is
// read.
type gapInput struct {
	*terminalInput
	begun  int
	signal func()
}

func (g *gapInput) begin() (func(), error) {
	if g.begun++; g.begun == 2 {
		g.signal()
	}
	return g.terminalInput.begin()
}

// TestSignalBetweenAnswerAndPromptKeepsTheAnswer sends a signal in the moment between an answer and
// the next prompt of a terminal. The program ends as the signal tells, and the session has the
// answer by then.
func TestSignalBetweenAnswerAndPromptKeepsTheAnswer(t *testing.T) {
	for number, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		keyboard, terminal := openTerminal(t)
		var shown screen
		go io.Copy(&shown, keyboard)
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, 0o700))
		engine, err := llmrun.Open(bundled.Name, llmrun.Options{FS: bundled.FS, Context: 2048, Cache: llmrun.CacheOptions{KVDir: dir}})
		require.NoError(t, err)
		session, err := engine.OpenSession("x", llmrun.SessionOptions{SaveBehind: true})
		require.NoError(t, err)
		signals := watchSignals(func() { _ = session.Flush() })
		var saved []llmrun.Message
		exited := -1
		signals.exit = func(code int) { // a process would end here
			exited = code
			kept, err := llmrun.ShowSession(dir, "x")
			if err == nil {
				saved = kept.Messages
			}
			keyboard.WriteString("\x04") // Ctrl-D ends the test's conversation
		}
		before := mode(t, terminal)
		in := &gapInput{newTerminalInput(terminal, terminal, signals, &history{}), 0, func() {
			require.NoError(t, syscall.Kill(os.Getpid(), number))
			testutil.Eventually(t, "the signal has arrived", func() bool {
				signals.mu.Lock()
				defer signals.mu.Unlock()
				return signals.pending != nil
			})
		}}
		streams := cli.SystemStreams()
		streams.Err = io.Discard
		talk := &conversation{s: streams, model: &modelFlags{}, settings: &generationFlags{}, engine: engine, session: session, signals: signals, options: llmrun.GenerateOptions{MaxTokens: 5}, named: true}
		go func() {
			// Without a prompt, the conversation gets the text all the same, and the test fails instead of hanging.
			_ = testutil.HoldsWithin(time.Minute, func() bool { return mode(t, terminal) != before })
			keyboard.WriteString("Hi\r")
		}()
		require.NoError(t, talk.loop(t.Context(), in))
		require.NoError(t, signals.end(nil))
		require.Equal(t, code, exited)
		require.Len(t, talk.messages, 2)
		require.Equal(t, talk.messages, saved, "at the exit")
		require.NoError(t, session.Close())
		require.NoError(t, engine.Close())
	}
}

// TestSignalsAtTheEndOfAChat checks that a signal that no phase gets becomes the error of the
// command, and that a phase after a signal gets the next one.
func TestSignalsAtTheEndOfAChat(t *testing.T) {
	signals := watchSignals(func() {})
	send := func(number syscall.Signal) { require.NoError(t, syscall.Kill(os.Getpid(), number)) }
	for range 2 {
		ctx, end := signals.interruptible(t.Context())
		send(syscall.SIGINT)
		<-ctx.Done()
		require.ErrorIs(t, end(nil), cli.ErrInterrupted)
	}
	ctx, end := signals.interruptible(t.Context())
	require.ErrorIs(t, end(io.EOF), io.EOF)
	<-ctx.Done()
	send(syscall.SIGTERM)
	testutil.Eventually(t, "the signal has arrived", func() bool {
		signals.mu.Lock()
		defer signals.mu.Unlock()
		return signals.pending != nil
	})
	require.Equal(t, cli.StoppedBy(syscall.SIGTERM), signals.end(nil))
}
