package runner

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/relay/runner/settings"
)

// MainOptions is what a whole relay process needs: where its file is, where its environment and its log are.
type MainOptions struct {
	// ConfigPath is the path of relay.yaml.
	ConfigPath string
	// Env is os.LookupEnv in a real process.
	Env settings.LookupEnv
	// Log receives JSON lines; the one with the message "ready" carries the address in "addr", and in "interrupted" how many
	// requests the relay before left unfinished.
	Log io.Writer
	// Grace is DefaultGrace unless set.
	Grace time.Duration
}

// Main is a relay process from its start to its end, which comes when ctx is done. It changes the umask of the process
// and of everything that it starts to 077, so it belongs into a process of its own. Problems with the file come back as
// a *settings.Error.
func Main(ctx context.Context, o MainOptions) error {
	// The umask is one per process and inherited by children. Setting it here, before anything runs beside us, is the only
	// moment at which no other goroutine can be creating a file.
	syscall.Umask(0o077)
	closeInherited()
	config, err := settings.Load(o.ConfigPath, o.Env)
	if err != nil {
		return err
	}
	log := zerolog.New(o.Log).With().Timestamp().Logger()
	journal, err := OpenJournal(config.Journal, time.Now)
	if err != nil {
		return err
	}
	relay, err := Listen(ctx, Options{Config: config, Journal: journal, Log: log, Grace: o.Grace})
	if err != nil {
		return errors.Join(err, journal.Close())
	}
	log.Info().Str("addr", relay.Addr()).Int("actions", len(config.Actions)).Str("sandbox", "none").
		Str("journal", config.Journal).Int("interrupted", journal.interrupted).Msg("ready")
	err = relay.Serve(ctx)
	log.Info().Msg("stopped")
	return errors.Join(err, journal.Close())
}
