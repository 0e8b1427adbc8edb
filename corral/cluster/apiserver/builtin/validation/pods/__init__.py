"""Pods and the templates of pods: their containers, volumes, placement and updates."""
