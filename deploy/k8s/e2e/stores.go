package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

func deleteStores(ctx context.Context, w *world) (string, error) {
	var figures []string
	for _, store := range []string{"nats", "redis", "postgres", "image-registry", "buildkit"} {
		namespace := "slipway"
		if store == "buildkit" {
			namespace = "slipway-buildkit"
		}
		began := time.Now()
		if _, err := w.kubectl(ctx, "-n", namespace, "delete", "pod", store+"-0"); err != nil {
			return "", err
		}
		if _, err := w.kubectl(ctx, "-n", namespace, "rollout", "status", "statefulset/"+store, "--timeout=10m"); err != nil {
			return "", err
		}
		back := time.Now()
		if err := w.until(ctx, "requests after "+store, 3*time.Minute, func() error { return steady(ctx, w, "AFTER="+store) }); err != nil {
			return "", err
		}
		served := time.Now()
		try := 0
		if err := w.until(ctx, "a build after "+store, 3*time.Minute, func() error { try++; return build(ctx, w, fmt.Sprintf("after-%s-%d", store, try)) }); err != nil {
			return "", err
		}
		figures = append(figures, fmt.Sprintf("%s back after %.0f s, requests %.1f s later, a build then takes %.1f s",
			store, back.Sub(began).Seconds(), served.Sub(back).Seconds(), time.Since(served).Seconds()))
	}
	return strings.Join(figures, "; "), nil
}

// steady makes ten requests in a row, so that every replica serves some. It returns the first
// error.
func steady(ctx context.Context, w *world, env string) error {
	for i := range 10 {
		if err := once(ctx, w.client, w.image, fmt.Sprintf("%s-%d", env, i)); err != nil {
			return err
		}
	}
	return nil
}

// loseRegistry deletes the registry with its volume, so that all built images are lost. The
// next request must build its image again, although the database and the layer index still list
// it.
func loseRegistry(ctx context.Context, w *world) (string, error) {
	recipes := func() error {
		return errors.Join(build(ctx, w, "kept-by-nobody"), makeEnvironment(ctx, w, "libcurl", "libuuid"))
	}
	if err := recipes(); err != nil {
		return "", fmt.Errorf("before the loss: %w", err)
	}
	for _, args := range [][]string{
		{"scale", "statefulset/image-registry", "--replicas=0"},
		{"wait", "--for=delete", "pod/image-registry-0", "--timeout=5m"},
		{"delete", "pvc", "data-image-registry-0", "--timeout=5m"},
		{"scale", "statefulset/image-registry", "--replicas=1"},
		{"rollout", "status", "statefulset/image-registry", "--timeout=10m"},
	} {
		if _, err := w.kubectl(ctx, append([]string{"-n", "slipway"}, args...)...); err != nil {
			return "", err
		}
	}
	if err := w.pushBase(ctx); err != nil {
		return "", err
	}
	began := time.Now()
	if err := recipes(); err != nil {
		return "", fmt.Errorf("after the loss: %w", err)
	}
	return fmt.Sprintf("a Dockerfile and a Conda environment requested again were pulled after %.1f s", time.Since(began).Seconds()), nil
}
