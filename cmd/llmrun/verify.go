package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name:     "verify",
		Synopsis: "PATH... [--cache-dir DIR] [--json]",
		Summary:  "check packs, and the files of models",
		About: `Reads every byte of packs and compares the checksums. The error names a damaged pack and the offset of the first fault, and the exit code is 4.

Of another model it reads every file and prints the SHA-256, to compare with that of the download page. If llmrun has used the file before, it remembers its hash in the cache directory: a file whose content changed, while its size and time of modification did not, is damaged, and the exit code is 4. The hash of a file that had changed less than two seconds before its use is remembered only to find it unchanged. Of a directory it checks all models.

--json prints {"verified":[{"name":"…","bytes":…}]}, with sha256 and known (whether an earlier hash was the same) for a file that is not a pack, with error for a damaged one, and the number of bytes read until the fault.`,
		Examples: []cli.Example{
			{Line: "llmrun verify model.pack", Purpose: "after copying it to another disk"},
			{Line: "llmrun verify models/", Purpose: "all models in a directory"},
			{Line: "llmrun verify model.gguf", Purpose: "after a download"},
			{Line: "llmrun verify model.pack && rm model.gguf", Purpose: "before deleting the source model"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			v := &verifyFlags{}
			v.add(f)
			return v.run
		},
	}
}

// verifyFlags are the flags of verify.
type verifyFlags struct{ storeFlags }

// run checks all files, and continues after a damaged one.
func (v *verifyFlags) run(ctx context.Context, s *cli.Streams, files []string) error {
	if len(files) == 0 {
		return cli.Usagef("give the packs or models to verify")
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	dir, err := v.cache.directory()
	if err != nil {
		dir = "" // there are no earlier hashes
	}
	all := verification{json: v.json}
	for _, name := range files {
		read := int64(0)
		bar := cli.NewMeter(s, "checking", cli.FormatBytes)
		sound, err := llmrun.VerifyModel(ctx, namedModel(name), dir, func(p llmrun.Progress) {
			read = p.Done
			bar.Update(p.Done, p.Total)
		})
		bar.Finish()
		if ctx.Err() != nil {
			return cli.Interruption(ctx, err)
		}
		all.addFiles(s, sound)
		if err != nil || len(sound) == 0 {
			all.add(name, read, err)
		}
	}
	return all.end(s)
}

// verified is the result for one session, or for one file that is damaged.
type verified struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Error string `json:"error,omitempty"`
}

// verifiedFile is the result for one file that is sound.
type verifiedFile struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256,omitempty"`
	Known  bool   `json:"known,omitempty"`
}

// A verification collects the results for several files or sessions.
type verification struct {
	json bool
	list []any // of verified and verifiedFile
	err  error
}

func (v *verification) add(name string, size int64, err error) {
	one := verified{Name: name, Bytes: size}
	if err != nil {
		one.Error = err.Error()
	}
	v.list = append(v.list, one)
	v.err = errors.Join(v.err, err)
}

// addFiles adds the files of a model that are sound, and prints them.
func (v *verification) addFiles(s *cli.Streams, files []llmrun.VerifiedFile) {
	for _, f := range files {
		v.list = append(v.list, verifiedFile{f.Path, f.Bytes, f.SHA256, f.Known})
		name := cli.VisibleLine(f.Path)
		switch {
		case v.json:
		case f.SHA256 == "":
			fmt.Fprintf(s.Out, "%s: sound\n", name)
		case f.Known:
			fmt.Fprintf(s.Out, "%s: SHA-256 %s, as at its last use\n", name, f.SHA256)
		default:
			fmt.Fprintf(s.Out, "%s: SHA-256 %s, no earlier hash to compare with\n", name, f.SHA256)
		}
	}
}

// end prints the JSON object of --json and returns the errors.
func (v *verification) end(s *cli.Streams) error {
	if !v.json {
		return v.err
	}
	return errors.Join(v.err, s.Out.WriteJSON(struct {
		Verified []any `json:"verified"`
	}{notNull(v.list)}))
}
