package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

func chatCommand() *cli.Command {
	return &cli.Command{
		Name:     "chat",
		Synopsis: "[MODEL | -m MODEL] [flags]",
		Summary:  "talk with a model",
		About: `Holds a conversation in the terminal. The up and down keys recall earlier lines, also of earlier chats: the last 1000 are in llmrun/history below XDG_STATE_HOME, or below .local/state in the home directory, which only you may read; --no-history remembers none. A line that ends with \ continues in the next line, and so does a block between two """. Ctrl-C stops an answer; Ctrl-C twice at the prompt leaves. /help lists the commands.

If standard input is not a terminal, each line is a message and chat prints only answers.`,
		Examples: []cli.Example{
			{Line: "llmrun chat", Purpose: "talk with " + defaultModel},
			{Line: `llmrun chat model.gguf --system "Answer briefly." --temp 0.3`, Purpose: "with a system message"},
			{Line: `printf 'Who are you?\nWhat is 3 + 4?\n' | llmrun chat --temp 0`, Purpose: "a conversation from a script"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			c := &chatFlags{}
			f.Everyday(
				everydayModel,
				"system: the system message", "session: continue the session of that name, or start it",
				"temp: temperature; 0 always takes the most likely token", "seed: the same seed gives the same text",
				"ram: memory limit, such as 1.5GiB; weights that do not fit are read from flash, and the answer is the same",
				"ctx: tokens of context, such as 8K", "n: at most N new tokens per answer",
			)
			c.model.addAnswering(f)
			f.Group("Conversation")
			f.OptionalText(&c.system, "system", "TEXT", "the system message at the beginning")
			f.Toggle(&c.noHistory, "no-history", "do not remember the lines that are typed for the up key of later chats; with --cache-key-file they are not remembered in any case")
			f.Setting("no-history")
			c.model.addSession(f)
			c.generation.add(f)
			return c.run
		},
	}
}

// chatFlags are the flags of chat.
type chatFlags struct {
	model      modelFlags
	generation generationFlags
	system     *string
	noHistory  bool
}

// run holds the conversation. A message that is too long to be read ends it with the budget that the
// message needs, whether it is known before the model is opened or comes from a pipe.
func (c *chatFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	err := errors.Join(c.model.takeArgument(args), c.generation.checkOverflow())
	if err == nil {
		err = c.expectInput(s)
	}
	if err == nil {
		err = c.hold(ctx, s)
	}
	return c.model.stateMinimum(ctx, s, c.generation.overflow, err)
}

// hold loads the model and holds the conversation until the input ends.
func (c *chatFlags) hold(ctx context.Context, s *cli.Streams) (err error) {
	loading, stop := cli.Interruptible(ctx)
	talk := &conversation{s: s, model: &c.model, settings: &c.generation, named: c.model.session != ""}
	err = talk.open(loading)
	stop() // each answer handles Ctrl-C itself
	if err != nil {
		return err
	}
	// A signal while a message is read must not lose the answer that is being saved.
	signals := watchSignals(func() { _ = talk.session.Flush() }) // its error has nobody to tell
	defer func() { err = signals.end(err) }()
	defer func() { err = errors.Join(err, talk.close()) }() // closing an engine writes the trace
	talk.signals, talk.messages = signals, talk.session.Messages()
	if c.system != nil {
		talk.setSystem(*c.system)
	}
	input := newInput(s, signals, c.model.ram.bytes, talk.messageRoom, func() *history { return c.history(s) })
	if input.interactive() {
		talk.greet()
		if n := len(talk.messages); n > 0 {
			talk.note("Session %s continues: %d messages, %d tokens.", c.model.session, n, talk.session.Len())
		}
	}
	return talk.loop(ctx, input)
}

// history returns the lines of earlier chats. What is kept encrypted elsewhere is not kept in plain text.
func (c *chatFlags) history(s *cli.Streams) *history {
	file := ""
	if !c.noHistory && c.model.cache.keyFile == "" {
		file, _ = historyFile(os.Getenv) // without a home directory only this chat remembers
	}
	return readHistory(file, s.Note)
}

// A conversation holds the messages so far and the session that continues them. The
// conversation can drop, save and load messages; the session compares them with its keys and
// values and prefills only what is new.
type conversation struct {
	s        *cli.Streams
	model    *modelFlags
	engine   *llmrun.Engine
	session  *llmrun.Session
	signals  *signalWatch
	options  llmrun.GenerateOptions
	settings *generationFlags
	attached string // texts of /file, for the next message
	messages []llmrun.Message
	answers  uint64          // number of answers so far; each has its own seed
	saved    map[string]bool // files that this conversation wrote
	named    bool            // the session has a name; each answer is saved behind
}

// messageRoom returns memory for a message while it is read.
func (c *conversation) messageRoom() *llmrun.Room { return c.engine.NewRoom("a message") }

// errExit ends the conversation.
var errExit = errors.New("exit")

// greet describes the model and names /help.
func (c *conversation) greet() {
	info := c.engine.Info()
	name := info.Name
	if name == "" {
		name = info.Family + " model"
	}
	c.note("%s, %s parameters, context of %d tokens. /help lists the commands, Ctrl-D leaves.",
		name, cli.FormatCount(info.Parameters), info.MaxContext)
	if !info.HasChatTemplate {
		c.note("This model has no chat template: it may not be trained for conversations.")
	}
}

// loop answers messages until the input ends. An error ends the loop only if the input is not
// interactive.
func (c *conversation) loop(ctx context.Context, input input) error {
	interrupted := false // the last input was Ctrl-C
	for {
		text, err := readMessage(input)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, cli.ErrInterrupted) && interrupted:
			return cli.ErrInterrupted
		case errors.Is(err, cli.ErrInterrupted):
			interrupted = true
			c.note("Ctrl-C again, or /exit, leaves.")
			continue
		case err != nil:
			return c.unread(err)
		}
		interrupted = false
		err = c.handle(ctx, text)
		switch {
		case errors.Is(err, errExit):
			return nil
		case err == nil:
		case c.engine == nil: // no model could be opened
			return err
		case !input.interactive() || c.s.Out.Failure() != nil:
			return err
		case errors.Is(err, cli.ErrInterrupted):
			c.note("(stopped)")
		case cli.WasStopped(err): // but not by Ctrl-C, which stops the answer only
			return err
		default:
			c.note("llmrun: %s", cli.OneLine(err))
		}
		if input.interactive() {
			c.note("") // sets the next message apart
		}
	}
}

// unread returns the error of reading a message.
func (c *conversation) unread(err error) error {
	var long *longPrompt
	if errors.As(err, &long) {
		for i := range c.messages {
			long.beside += int64(len(c.messages[i].Content))
		}
	}
	return fmt.Errorf("reading the message: %w", err)
}

// handle runs a slash command or answers a message.
func (c *conversation) handle(ctx context.Context, text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return nil
	case strings.HasPrefix(text, "/") && !strings.Contains(text, "\n"):
		return c.runSlashCommand(ctx, text)
	}
	return c.ask(ctx, text)
}

// ask adds a message to the conversation and answers it.
func (c *conversation) ask(ctx context.Context, text string) error {
	before, attached := c.messages, c.attached
	if attached != "" {
		text = attached + "\n\n" + text
	}
	c.messages, c.attached = llmrun.AddUserMessage(c.messages, text), ""
	err := c.answer(ctx)
	if last := c.messages[len(c.messages)-1]; last.Role == "user" {
		// There is no answer: the message is removed, so that asking again does not repeat it.
		c.messages, c.attached = before, attached
	}
	return err
}

// answer generates an answer to the messages and appends it. An answer that Ctrl-C interrupts is
// appended up to that point.
func (c *conversation) answer(ctx context.Context) (err error) {
	ctx, end := c.signals.interruptible(ctx)
	defer func() { err = end(err) }()
	options := c.options
	if seed := options.Sampling.Seed; seed != nil {
		next := *seed + c.answers
		options.Sampling.Seed = &next
	}
	c.answers++
	options.WholePrompt = c.settings.promptOverflow(isFirst(c.session, c.messages)) == llmrun.OverflowStop
	bar := cli.NewMeter(c.s, "reading", cli.FormatTokens)
	defer bar.Finish()
	options.OnPrefill = func(done, total int) { bar.Update(int64(done), int64(total)) }

	var got answer
	printer := c.settings.thinking.printer(c.s)
	unsaved := c.session.Flush() // of the answer before
	err = got.collect(c.session.ChatMessages(ctx, c.messages, options), func(piece *llmrun.Piece) error {
		bar.Finish()
		printer.print(piece)
		return c.s.Out.Failure()
	})
	printer.endThinking()
	err = cli.Interruption(ctx, err)
	c.s.Out.EndLine()
	got.explainEmpty(func(text string) { c.note("(%s)", text) })
	if err == nil && c.session.Stats().StopReason == llmrun.StopRepeats {
		c.note("(%s)", loopText)
	}
	if len(got.ids) > 0 {
		c.messages = append(c.messages, got.Message())
	}
	err = errors.Join(err, unsaved)
	if isFull(err, c.session) {
		c.note("(%s; /reset starts over)", c.model.contextFullMessage(c.engine, c.session, options.WholePrompt, err))
	}
	return err
}

// setSystem replaces the system message of the conversation.
func (c *conversation) setSystem(text string) { c.messages = withSystem(c.messages, text) }

// withSystem replaces the system message at the beginning of messages. An empty text removes it.
func withSystem(messages []llmrun.Message, text string) []llmrun.Message {
	if len(messages) > 0 && messages[0].Role == "system" {
		messages = messages[1:]
	}
	if text != "" {
		messages = append([]llmrun.Message{{Role: "system", Content: text}}, messages...)
	}
	return messages
}

// note prints a line that is not part of an answer.
func (c *conversation) note(format string, args ...any) { c.s.Say(fmt.Sprintf(format, args...)) }
