package main

import (
	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// frozenFlags say where an image is pushed for good, in which form, and whether to
// wait for it.
type frozenFlags struct {
	freeze     string
	sif, await bool
}

func (f *frozenFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.freeze, "freeze", "", "Push the image to this `repository` for good, with your own credentials, and print its name there.")
	flags.BoolVar(&f.sif, "sif", false, "Make a Singularity image of it; with --freeze.")
	flags.BoolVar(&f.await, "await", false, "Show the build's log on standard error, and print the name when the image is there.")
	complete(cmd, "freeze")
}

// target adds to a request where the image goes.
func (f *frozenFlags) target(req *containerv1.ContainerRequest) error {
	switch {
	case f.freeze != "":
		req.BuildRepository, req.Freeze = f.freeze, true
	case f.sif:
		return usagef("--sif needs --freeze: a Singularity image is pushed to your own repository")
	}
	if f.sif {
		req.Format = "sif"
	}
	return nil
}

// wait shows the build of a request until its image is there, if told to.
func (f *frozenFlags) wait(cmd *cobra.Command, s *settings, c *client, res *containerv1.SubmitContainerResponse) error {
	if !f.await || res.GetSucceeded() {
		return nil
	}
	show := s.console(cmd.ErrOrStderr(), true)
	return show.during(func() error { return c.await(cmd.Context(), res, show) })
}
