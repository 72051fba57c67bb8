package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

func jobsCommand() *cli.Command {
	return &cli.Command{
		Name:     "jobs",
		Synopsis: "[list | show ID | cancel ID...] [--cache-dir DIR] [--cache-key-file FILE] [--json]",
		Summary:  "list, show or cancel summaries of documents",
		About: `summarize saves each document as a job: the summaries of its parts, and the result. list prints how far each job is, and whether a process works on it. show prints the summary of a finished job. cancel stops jobs, and deletes what is saved of them, also of finished ones.

--json prints {"dir":"…","jobs":[{"id":"…","document":"…","model":"…","state":"running, stopped or finished","done":…,"parts":…,"created":"…","finished":"…","bytes":…}]} for list, where a job that cannot be read has only id and damage, the reason; one such object with summary for show, and {"cancelled":[…]} for cancel.`,
		Examples: []cli.Example{
			{Line: "llmrun jobs", Purpose: "list the jobs"},
			{Line: "llmrun jobs show 0123456789ab", Purpose: "print a summary again"},
			{Line: "llmrun jobs cancel 0123456789ab", Purpose: "stop a job, and delete what is saved of it"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			c := &jobsFlags{}
			c.add(f)
			c.cache.addKey(f)
			return c.dispatch("a job, as llmrun jobs lists it",
				verb{"list", 0, 0, c.list},
				verb{"show", 1, 1, c.show},
				verb{"cancel", 1, anyNumber, c.cancel})
		},
	}
}

// jobsFlags are the flags of jobs.
type jobsFlags struct{ storeFlags }

// list prints one line for each job.
func (c *jobsFlags) list(s *cli.Streams, dir string, _ []string) error {
	list, err := c.cache.sessions(dir).Jobs()
	if err != nil {
		return err
	}
	if c.json {
		return s.Out.WriteJSON(struct {
			Dir  string            `json:"dir"`
			Jobs []llmrun.SavedJob `json:"jobs"`
		}{dir, notNull(list)})
	}
	for i := range list {
		j := &list[i]
		if j.Damage != "" {
			fmt.Fprintf(s.Out, "%s  cannot be read: %s\n", j.ID, cli.VisibleLine(j.Damage))
			continue
		}
		fmt.Fprintf(s.Out, "%s  %-8s  %4d of %s  %s  %s\n", j.ID, j.State, j.Done, countOf(j.Parts, "part"), j.Created.Local().Format(time.DateTime), cli.VisibleLine(j.Document))
	}
	fmt.Fprintf(s.Out, "%s in %s\n", countOf(len(list), "job"), cli.VisibleLine(dir))
	return nil
}

// show prints a job and its summary.
func (c *jobsFlags) show(s *cli.Streams, dir string, names []string) error {
	j, err := c.cache.sessions(dir).Job(names[0])
	if err != nil {
		return explainJob(err)
	}
	if c.json {
		return s.Out.WriteJSON(j)
	}
	if !s.Quiet {
		fmt.Fprintf(s.Err, "document  %s\nmodel     %s\nstate     %s, %d of %s\n", cli.VisibleLine(j.Document), cli.VisibleLine(j.Model), j.State, j.Done, countOf(j.Parts, "part"))
	}
	if j.Summary != "" {
		s.Out.ModelText(j.Summary)
		s.Out.EndLine()
	}
	return nil
}

// cancel cancels jobs, and continues after one that fails.
func (c *jobsFlags) cancel(s *cli.Streams, dir string, names []string) (err error) {
	done := []string{}
	for _, name := range names {
		if failed := c.cache.sessions(dir).CancelJob(name); failed != nil {
			err = errors.Join(err, explainJob(failed))
			continue
		}
		done = append(done, name)
		if !c.json {
			fmt.Fprintf(s.Out, "job %s is cancelled\n", name)
		}
	}
	if c.json && len(done) > 0 {
		err = errors.Join(err, s.Out.WriteJSON(map[string][]string{"cancelled": done}))
	}
	return err
}

// explainJob shortens the error for a job that does not exist.
func explainJob(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s; llmrun jobs lists them", strings.TrimSuffix(err.Error(), ": "+fs.ErrNotExist.Error()))
	}
	return err
}
