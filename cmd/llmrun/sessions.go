package main

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

func sessionsCommand() *cli.Command {
	return &cli.Command{
		Name:     "sessions",
		Synopsis: "[list | show NAME | rm NAME... | verify [NAME...]] [--cache-dir DIR] [--cache-key-file FILE] [--json]",
		Summary:  "list, show, check or delete saved conversations",
		About: `run and chat save a conversation as a session with --session: its text, its messages, and its keys and values. list prints the length and size of each session. show prints one. rm deletes sessions, and the keys and values that no other session needs. verify reads every byte of the named sessions, or of all, and compares the checksums.

--json prints {"dir":"…","sessions":[{"name":"…","model":"…","settings":"…","tokens":…,"kept_tokens":…,"bytes":…,"created":"…","saved":"…"}]} for list, where a session that cannot be opened has only name and damage, the reason; one such object with messages and ids for show, {"freed":…} for rm and {"verified":[{"name":"…","bytes":…}]} for verify, with error for a damaged one.`,
		Examples: []cli.Example{
			{Line: "llmrun sessions", Purpose: "list the sessions"},
			{Line: "llmrun sessions show book", Purpose: "print a conversation"},
			{Line: "llmrun sessions verify", Purpose: "check all sessions"},
			{Line: "llmrun sessions rm book", Purpose: "delete a session"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			c := &sessionsFlags{}
			c.add(f)
			c.cache.addKey(f)
			return c.dispatch("a session, as llmrun sessions lists it",
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
	list, err := c.cache.sessions(dir).Sessions()
	if err != nil {
		return err
	}
	if err := c.noteUnreadable(s, dir); err != nil {
		return err
	}
	if c.json {
		return s.Out.WriteJSON(struct {
			Dir      string                `json:"dir"`
			Sessions []llmrun.SavedSession `json:"sessions"`
		}{dir, notNull(list)})
	}
	for _, k := range list {
		if k.Damage != "" {
			fmt.Fprintf(s.Out, "%-20s  cannot be opened: %s\n", k.Name, cli.VisibleLine(k.Damage))
			continue
		}
		fmt.Fprintf(s.Out, "%-20s  %s  %8d tokens  %10s  %s\n", k.Name, k.Saved.Local().Format(time.DateTime), k.Tokens, cli.FormatBytes(k.Bytes), cli.VisibleLine(k.Model))
	}
	fmt.Fprintf(s.Out, "%s in %s\n", countOf(len(list), "session"), cli.VisibleLine(dir))
	return nil
}

// show prints the description and the messages of a session.
func (c *sessionsFlags) show(s *cli.Streams, dir string, names []string) error {
	k, err := c.cache.sessions(dir).Show(names[0])
	if err != nil {
		return c.explainMissing(s, dir, err)
	}
	if c.json {
		return s.Out.WriteJSON(k)
	}
	fmt.Fprintf(s.Out, "model     %s (%s)\ntext      %d tokens, %d messages\nKV        keys and values of %d tokens, %s\nsaved     %s, created %s\n",
		cli.VisibleLine(k.Model), cli.VisibleLine(k.Settings), k.Tokens, len(k.Messages), k.SavedTokens, cli.FormatBytes(k.Bytes),
		k.Saved.Local().Format(time.DateTime), k.Created.Local().Format(time.DateTime))
	for _, m := range k.Messages {
		fmt.Fprintf(s.Out, "\n%s:\n", cli.VisibleLine(m.Role))
		s.Out.ModelText(m.Content)
		s.Out.EndLine()
	}
	return nil
}

// remove deletes sessions by name, and continues after one that fails.
func (c *sessionsFlags) remove(s *cli.Streams, dir string, names []string) (err error) {
	total := int64(0)
	for _, name := range names {
		freed, failed := c.cache.sessions(dir).Remove(name)
		total += freed
		err = errors.Join(err, failed)
	}
	err = c.explainMissing(s, dir, err)
	switch {
	case err != nil && total == 0:
	case c.json:
		err = errors.Join(err, s.Out.WriteJSON(freed{total}))
	default:
		fmt.Fprintf(s.Out, "%s freed\n", cli.FormatBytes(total))
	}
	return err
}

// verify reads sessions by name, or all of them, and continues after a damaged one.
func (c *sessionsFlags) verify(s *cli.Streams, dir string, names []string) error {
	if len(names) == 0 {
		list, err := c.cache.sessions(dir).Sessions()
		if err != nil {
			return err
		}
		for _, k := range list {
			names = append(names, k.Name)
		}
	}
	all := verification{json: c.json}
	for _, name := range names {
		size, err := c.cache.sessions(dir).Verify(name)
		if err == nil && !c.json {
			fmt.Fprintf(s.Out, "%s: %s, all checksums match\n", name, cli.FormatBytes(size))
		}
		all.add(name, size, err)
	}
	return c.explainMissing(s, dir, all.end(s))
}

// explainMissing tells of sessions that need another key file if a session does not exist. It
// returns err.
func (c *sessionsFlags) explainMissing(s *cli.Streams, dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		_ = c.noteUnreadable(s, dir) // it only explains err
	}
	return err
}
