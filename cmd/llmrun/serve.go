package main

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/cmd/llmrun/bundled"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/serve"
)

// defaultListen is the address without --listen: one that only programs on this machine reach.
const defaultListen = "127.0.0.1:11435"

// apiKeyVariable is the environment variable with an API key, for services that have no file for it.
const apiKeyVariable = "LLMRUN_API_KEY"

// bundledName is the name by which requests choose the bundled model.
const bundledName = "llmrun"

// stopTime is how long answers may go on after a signal.
const stopTime = 10 * time.Second

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:     "serve",
		Synopsis: "[--model NAME=PATH ...] [flags]",
		Summary:  "answer HTTP requests of clients for OpenAI's, ollama's and Anthropic's APIs",
		About: `Listens on an address and answers requests until Ctrl-C or SIGTERM, which let running answers go on for 10 seconds; the exit code is then 0. A client for OpenAI's API uses the address with /v1 behind it, one for ollama's or Anthropic's API the address as it is; docs/guide/serving.md lists what they may ask for. A browser finds a page to chat at the address, http://` + defaultListen + `/ without --listen. Models that were pulled are offered by their names, and /api/pull of ollama's API downloads further ones, for clients on this machine, or with a key. A model is opened by the first request that names it, and closed after --keep-alive without one. The keys and values of long prompts are kept in the cache directory, so that the next question about a document begins soon, also after a restart.

Only programs on this machine reach the default address. Pages in a browser may use the server if they come from localhost or from the apps of Obsidian, Capacitor or Tauri; --allow-origin adds others. A client may have to send a key, as Authorization: Bearer KEY or X-Api-Key: KEY: one of the lines of --api-key-file, or the value of ` + apiKeyVariable + `.

GET /health answers {"status":"ok"}, and GET /metrics has counters for Prometheus. Standard error has a line for each request, which holds no text of prompts or answers.`,
		Examples: []cli.Example{
			{Line: "llmrun serve", Purpose: defaultModel + ", for a client on this machine"},
			{Line: "llmrun serve --model notes=qwen.gguf --model code=coder.gguf --ram 3GiB", Purpose: "two models, of which one is in memory at a time"},
			{Line: "llmrun serve --model notes=qwen.gguf --lora style=style.gguf", Purpose: "the models notes and notes:style, with and without an adapter, in the memory of one"},
			{Line: "llmrun serve --listen 0.0.0.0:11435 --api-key-file keys.txt", Purpose: "for other machines, which need a key"},
			{Line: "llmrun serve --listen notes.lan:11435 --tls-cert notes.pem --tls-key notes.key --api-key-file keys.txt", Purpose: "the same by HTTPS, so that nobody on the way reads along"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			v := &serveFlags{listen: defaultListen}
			v.add(f)
			return v.run
		},
	}
}

// serveFlags are the flags of serve.
type serveFlags struct {
	listen  string
	models  []serve.Model
	lora    []string
	own     string // the model without --model, from the settings; "" = the one in this program
	keyFile string
	tlsCert string
	tlsKey  string
	origins []string
	keep    time.Duration // 0 = the server's default
	ram     ramFlag
	cache   cacheFlags
}

func (v *serveFlags) add(f *cli.FlagSet) {
	f.Group("Address")
	f.Value("listen", "HOST:PORT", "the address to listen on; default: "+defaultListen+". Port 0 takes a free one", v.setListen)
	f.Text(&v.tlsCert, "tls-cert", "FILE", "answer HTTPS requests with the certificate in FILE (PEM, with those that it needs behind it); needs --tls-key")
	f.Text(&v.tlsKey, "tls-key", "FILE", "the private key of --tls-cert (PEM)")
	f.Text(&v.keyFile, "api-key-file", "FILE", "requests need one of the keys in FILE, one on each line; default: the key in "+apiKeyVariable+", or none")
	f.Value("allow-origin", "ORIGIN", "pages of this origin, such as https://notes.example, may use the server; * allows all pages that a browser on this machine shows; may be given several times", v.addOrigin)
	f.Group("Model")
	f.Value("model", "NAME=PATH", "offer a model under a name: a GGUF file (any part of a split one), Hugging Face directory, or pack; may be given several times. Default: "+defaultModel+", as "+bundledName, v.addModel)
	f.List(&v.lora, "lora", "[MODEL:]NAME=PATH[:SCALE]", "offer a model with a LoRA adapter, as the model MODEL:NAME: a directory in peft's format or a GGUF file, SCALE times as strongly. It stays in memory beside the weights of MODEL, one of --model, which can be left out if there is one; may be given several times")
	f.Value("keep-alive", "TIME", "how long a model stays open without requests: a duration such as 10m, or a number of seconds; negative: until another one needs the memory; default: 5m. Requests of ollama's API can say otherwise", v.setKeepAlive)
	f.Setting("listen")
	f.Setting("keep-alive")
	f.Setting("model").Sets(func(path string) error { v.own = path; return nil })
	addRAM(f, &v.ram, "the available memory")
	f.Setting("ram").Named("memory budget")
	v.cache.add(f)
}

func (v *serveFlags) setListen(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("must be a host and a port, such as %s, not %q", defaultListen, text)
	}
	v.listen = text
	return nil
}

func (v *serveFlags) setKeepAlive(text string) (err error) {
	if v.keep, err = serve.ParseKeepAlive(text); err != nil {
		return fmt.Errorf("%w, not %q", err, text)
	}
	if v.keep == 0 {
		v.keep = 1 // the zero of serve.Options means its default
	}
	return nil
}

func (v *serveFlags) addOrigin(text string) error {
	scheme, host, ok := strings.Cut(text, "://")
	if text != "*" && (!ok || scheme == "" || host == "" || strings.ContainsAny(host, "/ ")) {
		return fmt.Errorf("must be an origin such as https://notes.example, or *, not %q", text)
	}
	v.origins = append(v.origins, text)
	return nil
}

func (v *serveFlags) addModel(text string) error {
	name, path, ok := strings.Cut(text, "=")
	if !ok || name == "" || path == "" || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' }) {
		return fmt.Errorf("must be NAME=PATH, not %q", text)
	}
	for i := range v.models {
		if v.models[i].Name == name {
			return fmt.Errorf("must be a name that no other model has, not %q", text)
		}
	}
	v.models = append(v.models, serve.Model{Name: name, Path: namedModel(path)})
	return nil
}

// options returns the options of the server.
func (v *serveFlags) options(s *cli.Streams) (serve.Options, error) {
	o := serve.Options{
		Models: v.models, RAM: v.ram.bytes, KeepAlive: v.keep, AllowOrigins: v.origins,
		Logger: slog.New(slog.NewTextHandler(s.Err, nil)),
	}
	if host, _, err := net.SplitHostPort(v.listen); err == nil && host != "" {
		o.AllowHosts = []string{host}
	}
	var err error
	if o.APIKeys, err = v.keys(); err != nil {
		return o, err
	}
	if len(o.Models) == 0 {
		own, err := v.ownModel()
		if err != nil {
			return o, err
		}
		o.Models = []serve.Model{own}
	}
	if err := v.offerAdapters(o.Models); err != nil {
		return o, err
	}
	for i := range o.Models {
		if err := v.complete(s, &o.Models[i]); err != nil {
			return o, err
		}
	}
	client, store := hubClient(s), modelPlaces().Store()
	o.Puller = &puller{client, store, func(m *serve.Model) error { return v.complete(s, m) }}
	return o, nil
}

// offerAdapters gives the adapters of --lora to their models.
func (v *serveFlags) offerAdapters(models []serve.Model) error {
	for _, text := range v.lora {
		model, adapter := &models[0], text
		name, _, _ := strings.Cut(text, "=")
		if at := strings.LastIndexByte(name, ':'); at >= 0 {
			i := slices.IndexFunc(models, func(m serve.Model) bool { return m.Name == name[:at] })
			if i < 0 {
				return cli.Usagef("--lora %s: there is no --model %s", text, name[:at])
			}
			model, adapter = &models[i], text[at+1:]
		} else if len(models) > 1 {
			return cli.Usagef("--lora %s: there are several models: give MODEL:NAME=PATH", text)
		}
		if llmrun.AdapterName(adapter) == "" {
			return cli.Usagef("--lora %s: must be NAME=PATH or MODEL:NAME=PATH; a name has letters, digits, dots, - and _", text)
		}
		if err := checkAdapter(adapter); err != nil {
			return err
		}
		model.Options.Adapters = append(model.Options.Adapters, adapter)
	}
	return nil
}

// ownModel is the model without --model.
func (v *serveFlags) ownModel() (serve.Model, error) {
	if v.own != "" {
		path, err := findModel("--model", v.own)
		return serve.Model{Name: fileLike.ReplaceAllString(filepath.Base(v.own), ""), Path: path}, err
	}
	m := serve.Model{Name: bundledName}
	if m.Path, m.Options.FS = ownFile(); m.Options.FS != nil {
		m.License = bundled.Licenses()
	}
	return m, nil
}

// complete sets the options of a model.
func (v *serveFlags) complete(s *cli.Streams, m *serve.Model) error {
	o := &m.Options
	o.Memory.WatchProcess = v.ram.bytes > 0
	o.Notify = func(text string) { s.Note(m.Name + ": " + text) }
	if o.FS != nil { // the bundled demo model needs no import
		if v.cache.off {
			v.cache.applyKV(o)
			return nil
		}
		return v.cache.applySessions(o)
	}
	v.cache.apply(o)
	info, err := os.Stat(m.Path)
	if err != nil {
		return fmt.Errorf("--model: %w", err)
	}
	m.Modified = info.ModTime()
	return nil
}

// keys returns the keys of which requests must have one.
func (v *serveFlags) keys() (keys []string, err error) {
	text := os.Getenv(apiKeyVariable)
	if v.keyFile != "" {
		data, err := os.ReadFile(v.keyFile)
		if err != nil {
			return nil, fmt.Errorf("--api-key-file: %w", err)
		}
		text = string(data)
	}
	for line := range strings.Lines(text) {
		if key := strings.TrimSpace(line); key != "" {
			keys = append(keys, key)
		}
	}
	switch { // a server whose key got lost must not answer everyone
	case len(keys) > 0 || text == "" && v.keyFile == "":
		return keys, nil
	case v.keyFile != "":
		return nil, fmt.Errorf("--api-key-file: %s has no key", v.keyFile)
	}
	return nil, fmt.Errorf("%s has no key but blanks: set it to a key, or unset it", apiKeyVariable)
}

func (v *serveFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	options, err := v.options(s)
	if err != nil {
		return err
	}
	secure, err := v.tls()
	if err != nil {
		return err
	}
	server, err := serve.New(options)
	if err != nil {
		return err
	}
	if v.ram.bytes > 0 {
		llmrun.SetProgramHeap(server.Heap())
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", v.listen)
	if err != nil {
		return errors.Join(cli.Interruption(ctx, err), server.Close())
	}
	scheme := "http://"
	if secure != nil {
		if problem := certificateProblem(secure, time.Now()); problem != "" {
			s.Note("--tls-cert " + v.tlsCert + ": " + problem)
		}
		scheme, listener = "https://", tls.NewListener(listener, secure)
	}
	s.Note("serving on " + scheme + listener.Addr().String())
	if !isLoopback(listener.Addr()) && len(options.APIKeys) == 0 {
		s.Note("every machine that reaches this address can use the models: --api-key-file asks for a key")
	}
	if othersRead(v.keyFile) {
		s.Note("--api-key-file " + v.keyFile + ": other users of this machine may read or change it; run chmod 600 on it")
	}
	return serveUntil(ctx, server, listener)
}

// othersRead reports whether other users may read or change a file. A system of services may hand a program its keys in such files, so that is
// no reason to refuse one.
func othersRead(name string) bool {
	if name == "" || runtime.GOOS == "windows" { // which has no modes of files
		return false
	}
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0
}

// tls returns the configuration of HTTPS, or nil for HTTP. It has HTTP/1.1 alone: one connection with many requests would be one
// client's way around the limit of connections.
func (v *serveFlags) tls() (*tls.Config, error) {
	switch {
	case v.tlsCert == "" && v.tlsKey == "":
		return nil, nil
	case v.tlsKey == "":
		return nil, cli.Usagef("--tls-cert needs --tls-key, the file with the private key")
	case v.tlsCert == "":
		return nil, cli.Usagef("--tls-key needs --tls-cert, the file with the certificate")
	}
	certificate, err := tls.LoadX509KeyPair(v.tlsCert, v.tlsKey)
	if err != nil {
		if isEncryptedKey(v.tlsKey) {
			err = errors.New("the key is encrypted: decrypt it with openssl pkey -in FILE -out NEWFILE, and keep it from other users")
		}
		return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", v.tlsCert, v.tlsKey, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, nil
}

// isEncryptedKey reports whether a PEM file has a private key that needs a passphrase.
func isEncryptedKey(name string) bool {
	data, err := os.ReadFile(name)
	if err != nil {
		return false
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
			return true
		}
	}
	return false
}

// certificateProblem says why clients refuse the certificate at a time, and returns "" if its dates are no reason.
func certificateProblem(c *tls.Config, now time.Time) string {
	leaf := c.Certificates[0].Leaf
	switch {
	case now.After(leaf.NotAfter):
		return "the certificate has expired on " + leaf.NotAfter.Format(time.DateOnly) + ": clients refuse it"
	case now.Before(leaf.NotBefore):
		return "the certificate is not valid before " + leaf.NotBefore.Format(time.DateTime) + " UTC: clients refuse it; is the clock right?"
	}
	return ""
}

// isLoopback reports whether only this machine reaches an address.
func isLoopback(a net.Addr) bool {
	at, err := netip.ParseAddrPort(a.String())
	return err == nil && at.Addr().IsLoopback()
}

// serveUntil answers requests until ctx ends, lets running answers go on for a while, and closes the models.
func serveUntil(ctx context.Context, server *serve.Server, listener net.Listener) error {
	web := serve.NewHTTPServer(server)
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(listener) }()
	select {
	case err := <-failed:
		return errors.Join(err, server.Close())
	case <-ctx.Done():
	}
	server.Drain()
	rest, end := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer end()
	err := web.Shutdown(rest)
	closed := server.Close() // ends the answers that are left
	if errors.Is(err, context.DeadlineExceeded) {
		err = web.Close()
	}
	if err := errors.Join(err, closed); err != nil {
		return err
	}
	return nil // a server that was told to end has done what it should
}
