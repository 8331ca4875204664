package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// choice is the value of a flag that takes one of some words.
type choice struct {
	value *string
	words []string
}

func (c choice) String() string {
	if c.value == nil { // As pflag asks for the zero value.
		return ""
	}
	return *c.value
}

func (c choice) Type() string { return "string" }

func (c choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("give %s", listed(c.words))
	}
	*c.value = word
	return nil
}

// listed joins words as in a sentence.
func listed(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// outputFlag adds the flag that says how to print, the same for every command that prints an answer. What named says,
// -o name prints.
func outputFlag(cmd *cobra.Command, output *string, named string, more ...string) *pflag.Flag {
	words := append([]string{"text", "name", "json", "yaml"}, more...)
	*output = words[0]
	flag := cmd.Flags().VarPF(choice{output, words}, "output", "o",
		strings.Replace(listed(words), "name", "name (the "+named+")", 1))
	completeFlag(cmd, "output", oneOf(words...))
	return flag
}

// writeAs writes an answer: v for programs, its names, or the text.
func writeAs(w io.Writer, output string, v any, names []string, text func() error) error {
	var data []byte
	var err error
	switch output {
	case "name":
		for _, n := range names {
			data = fmt.Appendln(data, n)
		}
	case "json":
		data, err = json.MarshalIndent(v, "", "  ")
		data = append(data, '\n')
	case "yaml":
		data, err = yaml.Marshal(v)
	default:
		return text()
	}
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// written prints a text that is complete.
func written(w io.Writer, text *strings.Builder) func() error {
	return func() error {
		_, err := io.WriteString(w, text.String())
		return err
	}
}
