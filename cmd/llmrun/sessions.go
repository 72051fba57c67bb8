package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

func sessionsCommand() *cli.Command {
	return &cli.Command{
		Name:     "sessions",
		Synopsis: "[list | show NAME | rm NAME... | verify [NAME...]] [--cache-dir DIR] [--json]",
		Summary:  "show, check or delete the conversations that were kept",
		About: `Sessions are what run and chat keep with --session: their text, their messages, and the keys and values that the model has computed of them. list tells how long and how large each is, show prints one, rm deletes some with what no other session needs, and verify reads all that belongs to some, or to all, and compares every byte with its checksum.

--json prints {"dir":"…","sessions":[{"name":"…","model":"…","settings":"…","tokens":…,"kept_tokens":…,"bytes":…,"created":"…","saved":"…"}]} for list, in which a session that cannot be opened has a name and damage, which says why; one such object with messages and ids for show, {"freed":…} for rm and {"verified":[{"name":"…","bytes":…}]} for verify, with error where one is damaged.`,
		Examples: []cli.Example{
			{Line: "llmrun sessions", Purpose: "what is there"},
			{Line: "llmrun sessions show book", Purpose: "the conversation of one"},
			{Line: "llmrun sessions verify", Purpose: "check all of them"},
			{Line: "llmrun sessions rm book", Purpose: "delete one"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			c := &sessionsFlags{}
			c.add(f)
			return c.dispatch("a session, as llmrun sessions shows it",
				verb{"list", 0, 0, c.list},
				verb{"show", 1, 1, c.show},
				verb{"rm", 1, anyNumber, c.remove},
				verb{"verify", 0, anyNumber, c.verify})
		},
	}
}

// sessionsFlags are the flags of sessions.
type sessionsFlags struct{ storeFlags }

// list prints one line for each session.
func (c *sessionsFlags) list(s *cli.Streams, dir string, _ []string) error {
	list, err := llmrun.Sessions(dir)
	if err != nil {
		return err
	}
	if c.json {
		if list == nil {
			list = []llmrun.SavedSession{} // an empty list rather than null
		}
		return s.Out.WriteJSON(struct {
			Dir      string                `json:"dir"`
			Sessions []llmrun.SavedSession `json:"sessions"`
		}{dir, list})
	}
	for _, k := range list {
		if k.Damage != "" {
			fmt.Fprintf(s.Out, "%-20s  cannot be opened: %s\n", k.Name, strings.Map(cli.VisibleRune, k.Damage))
			continue
		}
		fmt.Fprintf(s.Out, "%-20s  %s  %8d tokens  %10s  %s\n", k.Name, k.Saved.Local().Format(time.DateTime), k.Tokens, cli.FormatBytes(k.Bytes), strings.Map(cli.VisibleRune, k.Model))
	}
	fmt.Fprintf(s.Out, "%s in %s\n", countOf(len(list), "session"), dir)
	return nil
}

// show prints a session: its messages, or how long its text is if it has none.
func (c *sessionsFlags) show(s *cli.Streams, dir string, names []string) error {
	k, err := llmrun.ShowSession(dir, names[0])
	if err != nil {
		return err
	}
	if c.json {
		return s.Out.WriteJSON(k)
	}
	fmt.Fprintf(s.Out, "model     %s (%s)\ntext      %d tokens, %d messages\nkept      keys and values of %d tokens, %s\nsaved     %s, begun %s\n",
		strings.Map(cli.VisibleRune, k.Model), k.Settings, k.Tokens, len(k.Messages), k.SavedTokens, cli.FormatBytes(k.Bytes),
		k.Saved.Local().Format(time.DateTime), k.Created.Local().Format(time.DateTime))
	for _, m := range k.Messages {
		fmt.Fprintf(s.Out, "\n%s:\n", m.Role)
		s.Out.ModelText(m.Content)
		s.Out.EndLine()
	}
	return nil
}

// remove deletes sessions by name, and goes on behind one that fails.
func (c *sessionsFlags) remove(s *cli.Streams, dir string, names []string) (err error) {
	total := int64(0)
	for _, name := range names {
		freed, failed := llmrun.RemoveSession(dir, name)
		total += freed
		err = errors.Join(err, failed)
	}
	switch {
	case err != nil && total == 0:
	case c.json:
		err = errors.Join(err, s.Out.WriteJSON(freed{total}))
	default:
		fmt.Fprintf(s.Out, "%s freed\n", cli.FormatBytes(total))
	}
	return err
}

// verify reads sessions by name, or all of them, and goes on behind one that is
// damaged.
func (c *sessionsFlags) verify(s *cli.Streams, dir string, names []string) error {
	if len(names) == 0 {
		list, err := llmrun.Sessions(dir)
		if err != nil {
			return err
		}
		for _, k := range list {
			names = append(names, k.Name)
		}
	}
	all := verification{json: c.json}
	for _, name := range names {
		size, err := llmrun.VerifySession(dir, name)
		if err == nil && !c.json {
			fmt.Fprintf(s.Out, "%s: %s, all as it was written\n", name, cli.FormatBytes(size))
		}
		all.add(name, size, err)
	}
	return all.end(s)
}
