"""Endings of an agent, and the outcome and failure class of each: one table for all agents.

    ending           outcome                  class
    success          graded
    gave_up          graded
    no_last_word     graded, else failed      agent_crashed     no final event, and exit status 0
    refused          graded, else failed      model_refused     by the model, or its endpoint (400, 413, 422)
    turn_limit       failed                   turn_limit
    crashed          failed                   agent_crashed     also: no final event, and another exit status
    killed           failed                   agent_crashed
    timed_out        failed                   agent_timeout
    trial_limit      failed                   limit_exceeded    what a trial may use of models
    budget           error                    budget            a limit of the job on money, tokens or calls
    quota            error                    budget            the provider's own hard quota; ends the job as `budget`
    authentication   error                    model_auth
    unknown_model    error                    model_unknown
    rate_limited     error, worth a new try   rate_limited
    endpoint_down    error, worth a new try   endpoint_down
    gateway          error, worth a new try   gateway           a call failed within the gateway, or was held there

What is graded passes or fails by its score. `graded, else failed`: it passes by its score when the exit status is 0,
and has the class when it does not pass.
"""

from __future__ import annotations

import enum


class Ending(enum.StrEnum):
    """Ending of an agent."""

    SUCCESS = "success"
    GAVE_UP = "gave_up"
    NO_LAST_WORD = "no_last_word"
    TURN_LIMIT = "turn_limit"
    REFUSED = "refused"
    CRASHED = "crashed"
    KILLED = "killed"
    TIMED_OUT = "timed_out"
    TRIAL_LIMIT = "trial_limit"
    BUDGET = "budget"
    QUOTA = "quota"
    AUTHENTICATION = "authentication"
    UNKNOWN_MODEL = "unknown_model"
    RATE_LIMITED = "rate_limited"
    ENDPOINT_DOWN = "endpoint_down"
    GATEWAY = "gateway"
