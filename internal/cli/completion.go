package cli

import (
	"fmt"
	"slices"
	"strings"
)

// Shells are the shells that Completion writes scripts for.
var Shells = []string{"bash", "zsh", "fish", "powershell"}

// Completion returns the script with which a shell completes command lines of the program. It is made of the same
// declarations as the help.
func (p *Program) Completion(shell string) (string, error) {
	write := map[string]func(*strings.Builder){
		"bash": p.completeBash, "zsh": p.completeZsh, "fish": p.completeFish, "powershell": p.completePowerShell,
	}[shell]
	if write == nil {
		return "", Usagef("there is no shell %q: give %s", shell, Either(Shells))
	}
	var b strings.Builder
	write(&b)
	return b.String(), nil
}

// completed are the flags of a command as shells complete them.
func (c *Command) completed() (flags []flagHelp) {
	for _, group := range c.Flags().groups {
		flags = append(flags, group.flags...)
	}
	return append(flags, flagHelp{names: "-h, --help", usage: "show the help", list: []string{"h", "help"}})
}

// spelled returns the names with their dashes.
func (f *flagHelp) spelled() (names []string) {
	for _, name := range f.list {
		names = append(names, dashed(name))
	}
	return names
}

// brief returns the beginning of an explanation, in a few words and without what shells would interpret.
func (p *Program) brief(f *flagHelp) string {
	const most = 60
	text := f.usage
	if i := strings.IndexAny(text, ";:("); i > 0 {
		text = text[:i]
	}
	text = p.complete(text)
	text = strings.Map(func(r rune) rune {
		if strings.ContainsRune("[]'\"`$\\", r) {
			return -1
		}
		return r
	}, strings.TrimSpace(text))
	if words := []rune(text); len(words) > most {
		text = string(words[:most])
		text = text[:max(strings.LastIndexByte(text, ' '), 1)] + "…"
	}
	return text
}

// plain removes what ends a quoted text.
func plain(text string) string { return strings.ReplaceAll(text, "'", "’") }

func (p *Program) completeBash(b *strings.Builder) {
	fmt.Fprintf(b, `# Completion of %[1]s for bash: put it where bash-completion finds it, or source it.
_%[1]s() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} flags= values=
	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		COMPREPLY=($(compgen -W '%[2]s' -- "$cur"))
		return
	fi
	case "${COMP_WORDS[1]}" in
`, p.Name, strings.Join(append(p.Names(), "help"), " "))
	for _, group := range p.Groups {
		for _, c := range group.Commands {
			var names []string
			fmt.Fprintf(b, "\t%s)\n\t\tcase \"$prev\" in\n", c.Name)
			for _, f := range c.completed() {
				names = append(names, f.spelled()...)
				if len(f.choices) > 0 {
					fmt.Fprintf(b, "\t\t%s) values='%s' ;;\n", strings.Join(f.spelled(), "|"), strings.Join(f.choices, " "))
				}
			}
			fmt.Fprintf(b, "\t\tesac\n\t\tflags='%s' ;;\n", strings.Join(names, " "))
		}
	}
	fmt.Fprintf(b, `	help) flags='%[2]s' ;;
	esac
	if [ -n "$values" ]; then
		COMPREPLY=($(compgen -W "$values" -- "$cur"))
	elif [[ $cur == -* ]] || [ "${COMP_WORDS[1]}" = help ]; then
		COMPREPLY=($(compgen -W "$flags" -- "$cur"))
	fi
}
complete -o bashdefault -o default -F _%[1]s %[1]s
`, p.Name, strings.Join(p.Names(), " "))
}

func (p *Program) completeZsh(b *strings.Builder) {
	fmt.Fprintf(b, "#compdef %[1]s\n# Completion of %[1]s for zsh: put it into a directory of $fpath, as _%[1]s.\n_%[1]s() {\n\tlocal -a commands\n\tcommands=(\n", p.Name)
	for _, group := range p.Groups {
		for _, c := range group.Commands {
			fmt.Fprintf(b, "\t\t'%s:%s'\n", c.Name, plain(c.Summary))
		}
	}
	fmt.Fprint(b, "\t\t'help:show the help'\n\t)\n\tif (( CURRENT == 2 )); then\n\t\t_describe command commands\n\t\treturn\n\tfi\n\tlocal command=$words[2]\n\tshift words\n\t(( CURRENT-- ))\n\tcase $command in\n")
	for _, group := range p.Groups {
		for _, c := range group.Commands {
			fmt.Fprintf(b, "\t%s) _arguments", c.Name)
			for _, f := range c.completed() {
				for _, name := range f.spelled() {
					value := ""
					switch {
					case len(f.choices) > 0:
						value = ":value:(" + strings.Join(f.choices, " ") + ")"
					case f.value:
						value = ":value:_files"
					}
					fmt.Fprintf(b, " \\\n\t\t'*%s[%s]%s'", name, strings.ReplaceAll(p.brief(&f), ":", ""), value)
				}
			}
			fmt.Fprint(b, " \\\n\t\t'*:file:_files' ;;\n")
		}
	}
	fmt.Fprintf(b, "\thelp) _describe command commands ;;\n\tesac\n}\ncompdef _%[1]s %[1]s\n", p.Name)
}

func (p *Program) completeFish(b *strings.Builder) {
	fmt.Fprintf(b, "# Completion of %[1]s for fish: put it into ~/.config/fish/completions/%[1]s.fish.\n", p.Name)
	for _, group := range p.Groups {
		for _, c := range group.Commands {
			fmt.Fprintf(b, "complete -c %s -n __fish_use_subcommand -f -a %s -d '%s'\n", p.Name, c.Name, plain(c.Summary))
			for _, f := range c.completed() {
				line := fmt.Sprintf("complete -c %s -n '__fish_seen_subcommand_from %s'", p.Name, c.Name)
				for _, name := range f.list {
					if len(name) == 1 {
						line += " -s " + name
					} else {
						line += " -l " + name
					}
				}
				switch {
				case len(f.choices) > 0:
					line += " -x -a '" + strings.Join(f.choices, " ") + "'"
				case f.value:
					line += " -r"
				}
				fmt.Fprintf(b, "%s -d '%s'\n", line, p.brief(&f))
			}
		}
	}
	fmt.Fprintf(b, "complete -c %s -n __fish_use_subcommand -f -a help -d 'show the help'\n", p.Name)
}

func (p *Program) completePowerShell(b *strings.Builder) {
	fmt.Fprintf(b, `# Completion of %[1]s for PowerShell: run it in the profile.
Register-ArgumentCompleter -Native -CommandName %[1]s -ScriptBlock {
	param($wordToComplete, $commandAst, $cursorPosition)
	$flags = @{
`, p.Name)
	var values []string
	for _, group := range p.Groups {
		for _, c := range group.Commands {
			var names []string
			for _, f := range c.completed() {
				names = append(names, f.spelled()...)
				for _, name := range f.spelled() {
					if len(f.choices) > 0 {
						values = append(values, fmt.Sprintf("\t\t'%s %s' = '%s'\n", c.Name, name, strings.Join(f.choices, " ")))
					}
				}
			}
			fmt.Fprintf(b, "\t\t'%s' = '%s'\n", c.Name, strings.Join(names, " "))
		}
	}
	fmt.Fprintf(b, `	}
	$values = @{
%[1]s	}
	$words = @($commandAst.CommandElements | ForEach-Object { "$_" })
	if ($wordToComplete) { $words = @($words | Select-Object -SkipLast 1) }
	if ($words.Count -lt 2) { $list = '%[2]s' }
	else {
		$list = $values["$($words[1]) $($words[-1])"]
		if (-not $list) { $list = $flags[$words[1]] }
	}
	$list -split ' ' | Where-Object { $_ -and $_.StartsWith($wordToComplete) } | ForEach-Object {
		[System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
	}
}
`, strings.Join(slices.Compact(values), ""), strings.Join(append(p.Names(), "help"), " "))
}
